//! The commands of operators for a log: they install it, check it, move it.

use std::path::Path;
use std::process::{Command, Output};

use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::postgres::PostgresLog;
use nsgate::batch::log::{BatchId, Log, Resolution};
use nsgate::batch::step::{Hazard, Settled};

use crate::house::{abort, commit, held, installed, intent, open};
use crate::postgres::{PASSWORD, Postgres};

fn nsgate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsgate"));
    command.args(arguments).env("NSGATE_LOG_PASSWORD", PASSWORD);
    command.output().unwrap()
}

fn works(arguments: &[&str]) -> String {
    let output = nsgate(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn fails(arguments: &[&str]) -> String {
    let output = nsgate(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Writes so many batches: the first is open, the second stuck, and nearly all others are over.
async fn fill(log: &dyn Log, batches: u64) {
    for number in 0..batches {
        let id = BatchId::now_v7();
        let key = format!("key-{number}");
        log.intend(id, intent(Some(&key))).await.unwrap();
        match number % 101 {
            0 => continue,
            1 => {
                log.decide(id, abort()).await.unwrap();
                let hazard = Settled::Hazard(Hazard::Unproven);
                log.note(id, 0, hazard).await.unwrap();
                let resolution = Resolution {
                    commit: true,
                    who: "ann".into(),
                    why: String::new(),
                    at: 7,
                    hazards: vec![0],
                };
                log.resolve(id, resolution).await.unwrap();
            }
            _ => {
                log.decide(id, commit()).await.unwrap();
                log.end(id, number).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_moves_to_postgres_and_back() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let file = path("batches.redb");
    let log = DiskLog::open(Path::new(&file), |error| panic!("{error}")).unwrap();
    fill(&log, 1010).await;
    let before = held(&log).await;
    let address = server.loopback(server.port);
    let to = ["log", "move", "--from", &file, "--to", &address];
    let missing = fails(&to);
    assert!(missing.contains("another process has it open"), "{missing}");
    drop(log);
    assert!(fails(&to).contains("run `nsgate log prepare`"));
    let said = works(&["log", "prepare", &address]);
    assert!(said.contains("schema nsgate is installed"), "{said}");
    let said = works(&to);
    assert!(said.starts_with("moved 1010 batches"), "{said}");
    let old = DiskLog::open(Path::new(&file), |_| {}).err().unwrap();
    assert!(
        old.to_string().contains("its batches were moved to"),
        "{old}"
    );
    // Its old name does not bring it back.
    std::fs::rename(path("batches.redb.moved"), &file).unwrap();
    let old = DiskLog::open(Path::new(&file), |_| {}).err().unwrap();
    assert!(
        old.to_string().contains("its batches were moved to"),
        "{old}"
    );
    std::fs::rename(&file, path("batches.redb.moved")).unwrap();
    let config = crate::house::config(&server.socket(), "nsgate");
    let log = open(&config).await;
    assert!(!log.is_new());
    assert_eq!(before, held(&log).await);
    let from = ["log", "move", "--from", &address, "--to", &file];
    let used = fails(&from);
    assert!(used.contains("gateway `test` uses it"), "{used}");
    log.close().await.unwrap();
    let other = path("other.redb");
    drop(DiskLog::open(Path::new(&other), |_| {}).unwrap());
    let full = fails(&["log", "move", "--from", &other, "--to", &address]);
    assert!(full.contains("it has batches already"), "{full}");
    let exists = fails(&["log", "move", "--from", &address, "--to", &other]);
    assert!(exists.contains("it exists already"), "{exists}");
    works(&from);
    let log = DiskLog::open(Path::new(&file), |error| panic!("{error}")).unwrap();
    assert!(!log.is_new());
    assert_eq!(before, held(&log).await);
    let gone = fails(&[
        "log",
        "move",
        "--from",
        &address,
        "--to",
        &path("again.redb"),
    ]);
    assert!(gone.contains("its batches were moved to"), "{gone}");
}

/// The move ends after the log that it comes from is out of use, and before the other one can be used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_was_killed_before_its_last_step_goes_on() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let file = path("batches.redb").display().to_string();
    let log = DiskLog::open(Path::new(&file), |error| panic!("{error}")).unwrap();
    fill(&log, 3).await;
    let before = held(&log).await;
    drop(log);
    let address = server.loopback(server.port);
    works(&["log", "prepare", &address]);
    let config = crate::house::config(&server.socket(), "nsgate");
    let unfinished = |from: &str| {
        format!(
            "`nsgate log move` from {from} did not finish; run it again with the same --from and --to"
        )
    };
    let refused = async || {
        let opened = PostgresLog::open(&config, "test", |_| {}).await;
        opened.err().unwrap().to_string()
    };

    let to = ["log", "move", "--from", &file, "--to", &address];
    works(&to);
    let mark = path("batches.redb.mark");
    let moved = std::fs::read_to_string(&mark).unwrap();
    let name = moved.split_once("moved to ").unwrap().1;
    let name = name.split_once("; set").unwrap().0.to_owned();
    let note = unfinished(&file);
    server.sql(&format!("UPDATE nsgate.log SET moved = '{note}'"));
    assert!(refused().await.contains(&note));
    let old = DiskLog::open(Path::new(&file), |_| {}).err().unwrap();
    assert!(
        old.to_string().contains("its batches were moved to"),
        "{old}"
    );
    assert!(works(&to).starts_with("moved 3 batches"));
    let log = open(&config).await;
    assert_eq!(before, held(&log).await);
    log.close().await.unwrap();

    let back = ["log", "move", "--from", &address, "--to", &file];
    works(&back);
    std::fs::rename(&file, path("batches.redb.moving")).unwrap();
    std::fs::rename(&mark, path("batches.redb.moving.mark")).unwrap();
    let note = unfinished(&name);
    std::fs::write(&mark, format!("nsgate batch log: {note}\n")).unwrap();
    let new = DiskLog::open(Path::new(&file), |_| {}).err().unwrap();
    assert!(new.to_string().contains(&note), "{new}");
    assert!(refused().await.contains("its batches were moved to"));
    assert!(works(&back).starts_with("moved 3 batches"));
    let log = DiskLog::open(Path::new(&file), |error| panic!("{error}")).unwrap();
    assert_eq!(before, held(&log).await);
    assert!(refused().await.contains("its batches were moved to"));
}

#[tokio::test]
async fn check_online_looks_at_the_log() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml").display().to_string();
    let check = |batch: &str| {
        let yaml = format!(
            "auth: {{ anonymous: true }}
backends:
  lake:
    implementation: rest
    properties: {{ uri: \"http://127.0.0.1:9\" }}
mounts:
  - {{ namespace: [lake], backend: lake }}
batch: {{ {batch} }}
"
        );
        std::fs::write(&file, yaml).unwrap();
        let said = fails(&["check", "--online", "--config", &file]);
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix("batch.log: "));
        line.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let log = format!(
        "log: \"{}\", log_password: {PASSWORD}",
        server.loopback(server.port)
    );
    assert!(check(&log).contains("run `nsgate log prepare`"));
    installed(&server, "nsgate").await;
    let sound = check(&log);
    assert!(sound.starts_with("works: no gateway uses it; "), "{sound}");
    assert!(sound.contains(" ms a durable write"), "{sound}");
    server.miss_standby();
    let unwritten = check(&log);
    assert!(
        unwritten.contains(
            "not be written: PostgreSQL commits nothing, because it waits for a synchronous standby"
        ),
        "{unwritten}"
    );
    server.need_no_standby();
    let wrong = check(&log.replace(PASSWORD, "other"));
    assert!(wrong.contains("batch.log_password"), "{wrong}");
    server.sql("UPDATE nsgate.log SET format = 9");
    assert!(check(&log).contains("its format is 9"));
    server.sql("UPDATE nsgate.log SET format = 1");
    assert!(check(&log).contains("run `nsgate log prepare` of this version"));
    server.sql("UPDATE nsgate.log SET format = 2");
    server.sql("ALTER SYSTEM SET full_page_writes = off");
    server.sql("SELECT pg_reload_conf()");
    let unsafe_server = check(&log);
    assert!(
        unsafe_server.contains("`full_page_writes`"),
        "{unsafe_server}"
    );
}
