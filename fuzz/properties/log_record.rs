//! Lines of one batch in its log.

use nsgate::batch::log::{Record, reread};

pub fn check(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let Ok((record, written)) = reread(&lines) else {
        return;
    };
    legal(&record);
    // A record that is written again reads as the same, and its bytes no longer change after that.
    let lines: Vec<&[u8]> = written.iter().map(Vec::as_slice).collect();
    let (again, rewritten) = reread(&lines).expect("its own writing");
    assert_eq!(format!("{record:?}"), format!("{again:?}"));
    assert_eq!(written, rewritten);
    // A record without its last lines is an earlier state of the same batch.
    for end in 1..lines.len() {
        let (earlier, _) = reread(&lines[..end]).expect("a beginning");
        assert_eq!(earlier.intent, record.intent);
        assert!(earlier.ended.is_none(), "it goes on after its end");
        if let Some(verdict) = earlier.verdict {
            let stands = record.verdict.as_ref().expect("a decision stands");
            assert_eq!(verdict.decision(), stands.decision());
        }
    }
    // A batch has one intent and one decision.
    let doubled: Vec<&[u8]> = [lines[0]]
        .into_iter()
        .chain(lines.iter().copied())
        .collect();
    assert!(reread(&doubled).is_err());
    if record.verdict.is_some() {
        let decision = lines.iter().find(|line| line.starts_with(b"{\"Verdict\""));
        let doubled = lines.iter().chain(decision).copied().collect::<Vec<_>>();
        assert!(reread(&doubled).is_err(), "decided twice");
    }
}

fn legal(record: &Record) {
    assert_eq!(record.settled.len(), record.intent.entries.len());
    let undone = record.settled.iter().any(Option::is_some);
    assert!(record.verdict.is_some() || (!undone && record.ended.is_none()));
}
