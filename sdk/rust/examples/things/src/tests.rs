use std::collections::BTreeMap;

use pawl::testing::{request, Sink, UPSTREAM};
use pawl::{Failure, FailureKind, HttpResponse, Request, Status, Tri};

/// A sink whose target keeps objects by their paths.
fn sink() -> Sink {
    let mut objects = BTreeMap::new();
    Sink::open(super::plugin(), "{}", move |r| {
        let answer = |found: Option<Vec<u8>>| HttpResponse { body: found.clone().unwrap_or_default(), ..HttpResponse::new(if found.is_some() { 200 } else { 404 }) };
        Ok(match (r.method.as_str(), r.body.clone()) {
            ("GET", None) => answer(objects.get(&r.path).cloned()),
            ("PUT", Some(body)) => {
                objects.insert(r.path.clone(), body);
                HttpResponse::new(204)
            }
            ("DELETE", None) => answer(objects.remove(&r.path)),
            _ => HttpResponse::new(400),
        })
    })
}

#[test]
fn an_object_lives_and_dies() {
    let s = sink();
    let r = request("team/a b", "{\"size\":1}");
    assert_eq!(s.observe(&r).status, Status::NotFound);
    let applied = s.apply(&r);
    assert_eq!(applied.status, Status::Ok, "{}", applied.message);
    assert_eq!(s.sent()[1].path, "/objects/team/a%20b");

    let seen = s.observe(&r);
    assert_eq!((seen.status, seen.observation.match_desired), (Status::Ok, Tri::Yes));
    assert_eq!(seen.observation.as_found, applied.observation.as_found);

    let newer = Request { acked: Some(applied.acked(&r)), ..request("team/a b", "{\"size\":2}") };
    let seen = s.observe(&newer).observation;
    assert_eq!((seen.match_desired, seen.match_acked), (Tri::No, Tri::Yes));

    assert_eq!(s.delete(&request("team/a b", "")).status, Status::Ok);
    assert_eq!(s.delete(&request("team/a b", "")).status, Status::NotFound);
}

#[test]
fn every_answer_of_the_target_becomes_an_outcome() {
    for (code, want) in [(204, Status::Ok), (302, Status::Rejected), (403, Status::Unauthorized), (422, Status::Rejected), (503, Status::Retry)] {
        let s = Sink::open(super::plugin(), "{}", move |_| Ok(HttpResponse::new(code)));
        assert_eq!(s.apply(&request("a", "{}")).status, want, "{}", code);
    }
    let s = Sink::open(super::plugin(), "{}", |_| {
        Err(Failure { kind: FailureKind::Connect, upstream: UPSTREAM.into(), message: "connection refused".into(), maybe_sent: false })
    });
    let got = s.apply(&request("a", "{}"));
    assert_eq!(got.status, Status::Unreachable);
    assert_eq!(got.message, "upstream \"target\": connection failed: connection refused");
}

#[test]
fn a_wrong_config_is_told() {
    for (config, says) in [
        ("{\"prefx\":\"/a\"}", "\"prefx\" is not known; there is prefix, upstream"),
        ("{\"prefix\":7}", "config: prefix: a string is needed, not a number"),
        ("{\"prefix\":\"a\"}", "a path is needed"),
        ("{\"upstream\":\"other\"}", "upstream \"other\" is not granted; granted: target"),
        ("{", "no valid JSON"),
    ] {
        let refused = Sink::try_open(super::plugin(), config, |_| Ok(HttpResponse::new(204))).err().expect(config);
        assert_eq!(refused.status, Status::Rejected, "{}", config);
        assert!(refused.message.contains(says), "{}: {}", config, refused.message);
    }
    let s = Sink::open(super::plugin(), "{\"prefix\":\"/kv\"}", |_| Ok(HttpResponse::new(204)));
    assert_eq!(s.target, "http://target.test/kv");
}
