//! Compares the scanner with the parser, which reads the whole answer.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use super::random_answer::Author;
use super::*;
use crate::util::dice::Dice;

const OPERATIONS: [Operation; 2] = [Operation::ListNamespaces, Operation::ListTables];

/// The answer as the parser reads it.
#[derive(Deserialize)]
struct Whole {
    namespaces: Option<Vec<String>>,
    tables: Option<Vec<String>>,
    page_token: Option<String>,
}

type Listed = Option<(Vec<String>, Option<String>)>;

fn parsed(body: &[u8], operation: Operation) -> Listed {
    // The parser also takes an array of the members' values, which is no form of the contract.
    let first = body.iter().find(|byte| !b" \t\r\n".contains(byte));
    let whole: Whole = serde_json::from_slice(body)
        .ok()
        .filter(|_| first == Some(&b'{'))?;
    let names = match operation {
        Operation::ListNamespaces => whole.namespaces,
        _ => whole.tables,
    };
    Some((names?, whole.page_token))
}

/// Scans a body that comes in pieces of random sizes up to this.
fn scanned(body: &[u8], operation: Operation, dice: &mut Dice, size: usize) -> Listed {
    let (mut scanner, mut names) = (NameScanner::new(operation), Vec::new());
    let mut rest = body;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + dice.below(size)));
        scanner.push(piece, &mut names).ok()?;
        rest = after;
    }
    Some((names, scanner.finish().ok()?))
}

#[test]
fn an_answer_is_read_and_refused_as_the_parser_does_it() {
    let mut author = Author(Dice::new(7));
    let (mut read, mut refused) = (0, 0);
    for round in 0..30_000 {
        let mut body = author.answer().into_bytes();
        if round % 2 == 1 {
            author.garble(&mut body);
        }
        let size = [1, 3, 20, 1000][round % 4];
        for operation in OPERATIONS {
            let whole = parsed(&body, operation);
            if whole.is_some() {
                read += 1;
            } else {
                refused += 1;
            }
            let text = String::from_utf8_lossy(&body);
            let found = scanned(&body, operation, &mut author.0, size);
            assert_eq!(found, whole, "{round} {operation:?}: {text}");
        }
    }
    println!("{read} answers read, {refused} refused");
    assert!(read > 5000 && refused > 5000);
}

#[test]
fn an_answer_that_is_not_complete_is_refused() {
    let body = br#"{"tables":["a","b"],"page_token":"x"} "#;
    for end in 0..body.len() - 2 {
        let found = scanned(&body[..end], Operation::ListTables, &mut Dice::new(1), 5);
        assert_eq!(found, None, "{end}");
    }
    let found = scanned(body, Operation::ListTables, &mut Dice::new(1), 5);
    assert_eq!(
        found,
        Some((vec!["a".into(), "b".into()], Some("x".into())))
    );
}

#[test]
fn one_value_is_held_at_a_time() {
    let (mut scanner, mut names) = (NameScanner::new(Operation::ListTables), Vec::new());
    scanner.push(b"{\"tables\":[\"t", &mut names).unwrap();
    let mut held = 0;
    for number in 0..100_000 {
        // The beginning of the next name comes with each piece.
        let piece = format!("0\",\"t{number}");
        scanner.push(piece.as_bytes(), &mut names).unwrap();
        assert_eq!(names.len(), 1);
        held = held.max(scanner.held.capacity());
        names.clear();
    }
    assert!(held < 1024, "{held}");
    for begin in [
        "{\"tables\":[\"",
        "{\"page_token\":\"",
        "{\"other\":[",
        "{\"",
    ] {
        let mut scanner = NameScanner::new(Operation::ListTables);
        scanner.push(begin.as_bytes(), &mut names).unwrap();
        let mut pieces = 0;
        while scanner.push(&[b'1'; 1 << 10], &mut names).is_ok() {
            pieces += 1;
            assert!(pieces <= LONGEST >> 10, "{begin}");
        }
    }
}
