use super::*;

fn text(s: &str) -> Result<String, Error> {
    parse(s.as_bytes()).map(|v| v.to_string())
}

#[test]
fn what_is_read_is_written_again() {
    for (given, want) in [
        (" null ", "null"),
        ("[true,false]", "[true,false]"),
        ("{\"b\" : 1 , \"a\":\r\n\t[ ]}", "{\"b\":1,\"a\":[]}"),
        ("-0", "-0"),
        ("1.50E+400", "1.50E+400"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
        (r#""\u00e9\n\ud83d\ude80\/\"\\\u0001""#, "\"é\\n🚀/\\\"\\\\\\u0001\""),
        ("\"\u{7f}ü\"", "\"\u{7f}ü\""),
        ("{}", "{}"),
    ] {
        assert_eq!(text(given).as_deref(), Ok(want), "{}", given);
    }
}

#[test]
fn what_is_no_json_is_refused_with_the_place() {
    for (given, at) in [
        ("", 0),
        ("  ", 2),
        ("nul", 0),
        ("01", 1),
        ("1.", 2),
        (".5", 0),
        ("+1", 0),
        ("1e", 2),
        ("-", 1),
        ("[1,]", 3),
        ("[1 2]", 3),
        ("[1", 2),
        ("{\"a\":1,}", 7),
        ("{\"a\" 1}", 5),
        ("{a:1}", 1),
        ("{\"a\":1,\"a\":2}", 13),
        ("\"\t\"", 1),
        ("\"abc", 4),
        (r#""\x""#, 2),
        (r#""\u12g4""#, 5),
        (r#""\ud800""#, 7),
        (r#""\ud800\u0041""#, 13),
        (r#""\udc00""#, 7),
        ("1 1", 2),
        ("NaN", 0),
        ("'a'", 0),
        ("[1]//", 3),
    ] {
        match parse(given.as_bytes()) {
            Err(e) => assert_eq!(e.offset, Some(at), "{}: {}", given, e),
            Ok(v) => panic!("{} was read as {}", given, v),
        }
    }
    assert_eq!(parse(b"\"\xff\"").unwrap_err().offset, Some(1));
}

#[test]
fn depth_is_bounded() {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    assert!(text(&nested(MAX_DEPTH)).is_ok());
    assert!(text(&nested(MAX_DEPTH + 1)).is_err());
    assert!(text(&"{\"a\":".repeat(1_000_000)).is_err());
}

#[test]
fn an_object_of_very_many_members_is_read_and_compared() {
    let object = |order: &mut dyn Iterator<Item = u32>| {
        let members: Vec<String> = order.map(|i| format!("\"k{}\":{}", i, i)).collect();
        parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap()
    };
    assert_eq!(object(&mut (0..100_000)), object(&mut (0..100_000).rev()));
}

#[test]
fn equality_is_by_value() {
    let same = |a: &str, b: &str| parse(a.as_bytes()).unwrap() == parse(b.as_bytes()).unwrap();
    assert!(same(r#"{"a":1,"b":[{}]}"#, r#"{ "b":[{}], "a":1 }"#));
    assert!(same(r#""\u0061""#, r#""a""#));
    assert!(!same("1.0", "1.00"));
    assert!(!same("[1,2]", "[2,1]"));
    assert!(!same(r#"{"a":1}"#, r#"{"a":1,"b":2}"#));
    assert!(!same(r#"{"a":1}"#, r#"{"b":1}"#));
    assert!(!same("null", "false"));
}

#[test]
fn values_are_found_by_path() {
    let v = parse(br#"{"a":[10,{"b/c":true,"~":"x"}],"":-7}"#).unwrap();
    assert_eq!(v.at("/a/0").and_then(Value::as_u64), Some(10));
    assert_eq!(v.at("/a/1/b~1c").and_then(Value::as_bool), Some(true));
    assert_eq!(v.at("/a/1/~0").and_then(Value::as_str), Some("x"));
    assert_eq!(v.at("/").and_then(Value::as_i64), Some(-7));
    assert_eq!(v.at(""), Some(&v));
    for missing in ["a", "/a/2", "/a/00", "/a/+0", "/a/x", "/a/0/x", "/b"] {
        assert_eq!(v.at(missing), None, "{}", missing);
    }
}

#[test]
fn numbers_are_converted_only_where_they_fit() {
    let n = |s: &str| parse(s.as_bytes()).unwrap();
    assert_eq!(n("18446744073709551615").as_u64(), Some(u64::MAX));
    assert_eq!(n("18446744073709551616").as_u64(), None);
    assert_eq!(n("-1").as_u64(), None);
    assert_eq!(n("1.0").as_i64(), None);
    assert_eq!(n("1.5e1").as_f64(), Some(15.0));
}

#[test]
fn a_misspelt_member_is_told() {
    let v = parse(br#"{"prefx":"/a"}"#).unwrap();
    assert_eq!(v.only(&["prefx"]), Ok(()));
    let e = v.only(&["prefix", "upstream"]).unwrap_err();
    assert_eq!(e.to_string(), "\"prefx\" is not known; there is prefix, upstream");
    assert!(Value::Null.only(&[]).is_err());
}
