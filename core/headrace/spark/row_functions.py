"""Functions of Spark SQL, up to Spark 4.1, and whether an expression over a row may call them.

An error of Spark for one row stops the table and may quote the row's values. A function is therefore allowed if no value of a row
makes it fail. ``row_arguments`` has the functions that are allowed with literals for some of their arguments.
"""

from __future__ import annotations


def _words(text: str) -> list[str]:
    return text.split()


def _alike(names: str, fix: str) -> dict[str, str]:
    return dict.fromkeys(_words(names), fix)


#: Functions whose value changes from run to run, or depends on the session or on the place of a row → what to write instead.
UNSTABLE = {
    **_alike(
        "curdate current_date current_time current_timestamp localtimestamp now",
        "use a time of the record: `_headrace_timestamp`, or `add.fields: source.ts_ms` of `unwrap`",
    ),
    **_alike("rand randn random randstr shuffle uniform", "write pmod(xxhash64(…), 100) of the row's own columns"),
    "uuid": "write md5(concat_ws('|', …)) or sha2(…, 256) of the row's own columns",
    **_alike(
        "input_file_block_length input_file_block_start input_file_name monotonically_increasing_id spark_partition_id",
        "use the record's place: `_headrace_topic`, `_headrace_partition`, `_headrace_offset`",
    ),
    **_alike(
        "current_catalog current_database current_path current_schema current_timezone current_user session_user user version",
        "write the value as a text in quotes",
    ),
    **_alike("java_method reflect try_reflect", "use functions of Spark SQL"),
}
#: Functions that Spark also reads without parentheses, if no column has the name.
UNSTABLE_NAMES = frozenset(
    _words("current_date current_time current_timestamp current_user localtimestamp session_user user")
)
#: Functions that are not functions of the row, and functions that fail by definition → what to write instead.
FORBIDDEN = {
    **UNSTABLE,
    **_alike("raise_error assert_true", "use the transform `filter`, or return null"),
}
#: Common functions of several rows → what to write instead.
OTHER_ROWS = {
    **_alike("explode explode_outer posexplode posexplode_outer", "use the transform `explode`"),
    **_alike("max min", "write greatest(…) or least(…) for columns of one row; or use a view"),
    **_alike("avg collect_list collect_set count first last row_number sum", "use a view"),
}
#: Functions that fail for some value of a row → what to write instead.
REFUSED = {
    **{
        name: f"write try_{name}" for name in ("to_binary", "aes_decrypt", "parse_json", "variant_get", "validate_utf8")
    },
    **_alike("to_number try_to_number", "write CAST(replace(…, ',', '') AS DECIMAL(…))"),
    "unbase64": "write try_to_binary(…, 'base64')",
    "url_decode": "write try_url_decode (Spark 4)",
    **_alike(
        "make_time time time_diff time_trunc to_time try_to_time", "use a text or a timestamp: tables have no type TIME"
    ),
    "timestamp_seconds": "write CAST(… AS TIMESTAMP), which converts seconds",
    "timestamp_millis": "write timestamp_micros(try_multiply(…, 1000))",
    **_alike("dateadd timestampadd", "write date_add for days, or try_add(…, make_interval(…))"),
    **_alike("make_dt_interval make_ym_interval", "write make_interval, and add the interval with try_add"),
    **_alike(
        "map_concat map_from_arrays map_from_entries str_to_map transform_keys",
        "make a struct or an array: Spark fails for equal keys",
    ),
    **_alike(
        "xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string from_xml to_xml "
        "schema_of_xml",
        "convert XML before headrace, or in a query of the table",
    ),
    **_alike(
        "from_avro to_avro schema_of_avro from_protobuf to_protobuf", "read such bytes with the `format` of the source"
    ),
    **_alike(
        "approx_top_k_estimate bitmap_count hll_sketch_estimate hll_union kll_sketch_get_n_bigint "
        "kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double "
        "kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float "
        "kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint "
        "kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection theta_sketch_estimate "
        "theta_union st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid",
        "call it in a query of the table: it fails for other bytes than its own",
    ),
}
#: Functions that return a value or null for every row.
ALLOWED = frozenset(
    _words("""
    abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp expm1 factorial
    floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sec shiftleft
    shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex
    width_bucket bit_count bitmap_bit_position bitmap_bucket_number
    bigint binary boolean cast date decimal double float int smallint string timestamp tinyint
    and between or not in isnan isnotnull isnull equal_null
    coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull typeof

    ascii base64 bit_length btrim char char_length character_length charindex chr collate collation concat concat_ws contains elt
    endswith find_in_set get_json_object initcap instr is_valid_utf8 lcase left len length levenshtein locate lower ltrim luhn_check
    make_valid_utf8 mask octet_length overlay position quote replace reverse right rtrim sentences soundex startswith substr
    substring translate trim try_to_binary try_validate_utf8 ucase upper
    crc32 hash md5 sha sha1 sha2 xxhash64 try_aes_decrypt
    try_url_decode url_encode
    schema_of_csv to_csv json_array_length json_object_keys schema_of_json to_json
    try_parse_json is_variant_null schema_of_variant to_variant_object try_variant_get

    date_add date_diff date_from_unix_date date_part date_sub date_trunc datediff datepart day dayname dayofmonth dayofweek dayofyear
    extract hour last_day make_date make_interval minute month monthname months_between next_day quarter second
    timestamp_micros timestampdiff trunc try_make_interval unix_date unix_micros unix_millis unix_seconds weekday
    weekofyear year

    aggregate array array_append array_compact array_contains array_distinct array_except array_intersect array_join array_max
    array_min array_position array_prepend array_remove array_size array_union arrays_overlap arrays_zip cardinality exists filter
    flatten forall get map_contains_key map_entries map_filter map_keys map_values map_zip_with named_struct reduce size sort_array
    struct transform transform_values zip_with
    """)
)
