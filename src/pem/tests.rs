#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

use super::*;

fn signed(name: DistinguishedName) -> CertificateDer<'static> {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name = name;
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().clone()
}

#[test]
fn a_subject_is_written_as_the_rfc_has_it() {
    let cases: [(&[(DnType, &str)], &str); 6] = [
        (&[], ""),
        (
            &[
                (DnType::CountryName, "DE"),
                (DnType::OrganizationName, "Acme"),
                (DnType::OrganizationalUnitName, "Data"),
                (DnType::CommonName, "loader"),
            ],
            "CN=loader,OU=Data,O=Acme,C=DE",
        ),
        (
            &[(DnType::CommonName, "a,b+c\"d\\e<f>g;h")],
            r#"CN=a\,b\+c\"d\\e\<f\>g\;h"#,
        ),
        (&[(DnType::CommonName, "#1 ")], r"CN=\#1\20"),
        (
            &[(DnType::CommonName, "CN=root,O=Acme")],
            r"CN=CN=root\,O=Acme",
        ),
        (&[(DnType::CommonName, "Zoë\n\0")], r"CN=Zoë\0a\00"),
    ];
    for (attributes, expected) in cases {
        let mut name = DistinguishedName::new();
        for (kind, value) in attributes {
            name.push(kind.clone(), DnValue::Utf8String((*value).to_owned()));
        }
        assert_eq!(subject(&signed(name)).unwrap(), expected);
    }
}

#[test]
fn a_certificate_has_a_time() {
    let certificate = signed(DistinguishedName::new());
    let at = |year: u64| {
        let validity = validity(
            &certificate,
            SystemTime::UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_557_600),
        );
        validity.unwrap()
    };
    assert!(matches!(at(2019), Validity::Ahead(_)));
    assert!(
        matches!(at(2025), Validity::Good(left, _) if left > Duration::from_secs(4 * 365 * 86400))
    );
    assert!(
        matches!(at(2031), Validity::Over(until) if until.to_string() == "2030-01-01T00:00:00Z")
    );
    let nonsense = CertificateDer::from(vec![48, 3, 2, 1, 1]);
    assert!(validity(&nonsense, SystemTime::now()).is_none() && subject(&nonsense).is_none());
}

#[test]
fn what_cannot_be_used_is_named_and_a_key_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let key = KeyPair::generate().unwrap().serialize_pem();
    let broken = key.replacen('M', "!", 3);
    for path in [
        file("empty.pem", ""),
        file("broken.pem", &broken),
        folder.path().join("none.pem"),
        folder.path().to_owned(),
    ] {
        for error in [
            certificates(&path).unwrap_err(),
            authorities(&path).unwrap_err(),
            super::key(&path).unwrap_err(),
            identity(&path, &path).unwrap_err(),
        ] {
            let said = error.to_string();
            assert!(said.contains(path.to_str().unwrap()), "{said}");
            for line in broken.lines().filter(|line| !line.starts_with('-')) {
                assert!(!said.contains(line), "{said}");
            }
        }
    }
}
