//! The parsing of a path segment as an identifier.

use divan::black_box;
use nsgate::protocol::identifier::Identifier;

const SHORT: (&str, &str) = ("prod%24t1", "$");
const BARE: (&str, &str) = ("prod$t1", "$");
const DEEP: (&str, &str) = ("a$b$c$d$e$f$g$h$i$j$k$l$m$n$o$table", "$");
const LONG_DELIMITER: (&str, &str) = ("prod::eu::t1", "::");
const ALL_ENCODED: (&str, &str) = ("%70%72%6f%64%24%74%31", "$");

#[divan::bench(args = [SHORT, BARE, DEEP, LONG_DELIMITER, ALL_ENCODED])]
fn parse((segment, delimiter): (&str, &str)) -> Identifier {
    Identifier::parse_segment(black_box(segment), black_box(delimiter)).unwrap()
}
