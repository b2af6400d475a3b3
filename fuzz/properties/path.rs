//! The first byte selects the method, the rest is a path.

use http::Method;
use nsgate::protocol::identifier::decode_segment;
use nsgate::protocol::operation::{Kind, Operation, Target, Unrecognized, recognize};

const METHODS: [Method; 4] = [Method::POST, Method::GET, Method::DELETE, Method::PUT];

pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let Ok(path) = std::str::from_utf8(rest) else {
        return;
    };
    let method = &METHODS[usize::from(*first) % METHODS.len()];
    let outcome = recognize(method, path);
    // Only slashes at the end are ignored.
    assert_eq!(outcome, recognize(method, &format!("{path}/")));
    match outcome {
        Ok(target) => recognized(method, path.trim_end_matches('/'), target),
        Err(Unrecognized::WrongMethod { allow }) => {
            let allowed = allow.parse().expect("a method");
            assert_ne!(method, allowed);
            assert!(recognize(&allowed, path).is_ok(), "{allow} {path}");
        }
        Err(Unrecognized::Ambiguous(_)) => {
            let path = path.trim_end_matches('/').to_ascii_lowercase();
            let odd = [";", "\\", "//", "%2f", "%5c"]
                .iter()
                .any(|odd| path.contains(odd));
            assert!(odd || path.split('/').any(is_dots), "{path}");
        }
        Err(Unrecognized::NoSuchExtension) => assert!(path.starts_with("/nsgate"), "{path}"),
        Err(Unrecognized::WrongBase(_)) => {
            let is_doubled = path.starts_with("//") || path.starts_with("/v1/v1");
            assert!(is_doubled, "{path}");
        }
        Err(Unrecognized::NoSuchRoute) => {}
    }
}

fn recognized(method: &Method, path: &str, target: Target<'_>) {
    let Target {
        operation,
        id,
        index_name,
    } = target;
    assert_eq!(id.is_some(), operation.kind().is_some(), "{path}");
    for part in id.iter().chain(&index_name) {
        assert!(!part.is_empty() && !part.contains('/'), "{path}");
    }
    // No server can see other segments in the path than the recognition did.
    assert!(
        !path.contains([';', '\\']) && !path.contains("//") && !path.split('/').any(is_dots),
        "{path}"
    );
    if let Some(expected) = operation.method() {
        assert_eq!(method, expected);
    }
    if operation == Operation::Snapshot {
        assert_eq!(path, "/nsgate/v1/snapshot");
        return;
    }
    let Some((collection, tail)) = operation.route() else {
        let kind = match operation {
            Operation::Unlisted(Kind::Namespace) => "namespace",
            Operation::Unlisted(Kind::Table) => "table",
            Operation::Unlisted(Kind::MaterializedView) => "materialized_view",
            Operation::Unlisted(Kind::Transaction) => "transaction",
            listed => panic!("{listed:?} has no route"),
        };
        let start = format!("/v1/{kind}/{}/", id.expect("seen above"));
        let tail = path.strip_prefix(&start).expect("its own path");
        assert!(
            !tail.is_empty() && !tail.to_ascii_lowercase().contains("%2f"),
            "{path}"
        );
        return;
    };
    // The target, printed again, is the same path.
    let tail = tail.replace("{index_name}", index_name.unwrap_or("{index_name}"));
    let mut printed = format!("/v1/{collection}");
    for part in id.into_iter().chain((!tail.is_empty()).then_some(&*tail)) {
        printed.push('/');
        printed.push_str(part);
    }
    assert_eq!(printed, path, "{operation:?}");
}

fn is_dots(segment: &str) -> bool {
    decode_segment(segment).is_ok_and(|decoded| decoded == "." || decoded == "..")
}
