//! A PostgreSQL server of the test's own: a new cluster in a folder of its own, on a Unix socket and on loopback.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user that runs the server if the tests run as root, which the server refuses: `nobody`.
const NOBODY: u32 = 65534;
/// The longest time that a standby may take until it confirms.
const PATIENCE: Duration = Duration::from_secs(60);
/// The password of the user `nsgate` on loopback.
pub const PASSWORD: &str = "s3cret-of-the-log";

/// A running server.
pub struct Postgres {
    folder: TempDir,
    bin: PathBuf,
    pub port: u16,
}

impl Postgres {
    /// Creates a cluster and starts it. Returns `None` if `NSGATE_SKIP_REAL=1` and no server is installed.
    pub fn start() -> Option<Self> {
        let Some(bin) = bin() else {
            if std::env::var_os("NSGATE_SKIP_REAL").is_some_and(|value| value == "1") {
                eprintln!("skipped: no PostgreSQL is installed, and NSGATE_SKIP_REAL=1");
                return None;
            }
            panic!(
                "no PostgreSQL is installed (initdb is neither in PATH nor in /usr/lib/postgresql/*/bin). Install it (Debian: postgresql), or set NSGATE_SKIP_REAL=1 to leave these tests out"
            );
        };
        let server = Self::at(bin);
        let password = server.home().join("password");
        fs::write(&password, PASSWORD).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).unwrap();
        let data = server.data();
        server.run(
            "initdb",
            &[
                "-D",
                &data,
                "-U",
                "nsgate",
                "--no-sync",
                "--locale=C",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                &format!("--pwfile={}", password.display()),
            ],
        );
        server.configure();
        server.up();
        Some(server)
    }

    /// Returns a server without a cluster.
    fn at(bin: PathBuf) -> Self {
        let folder = TempDir::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = folder.path().join("pg");
        fs::create_dir(&home).unwrap();
        if is_root(folder.path()) {
            chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let port = free_port();
        Self { folder, bin, port }
    }

    /// Adds the server's own addresses to the configuration of its cluster.
    fn configure(&self) {
        // A standby connects again soon: until it does, the primary commits nothing.
        let config = format!(
            "\nport = {}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\nshared_buffers = 16MB\nwal_retrieve_retry_interval = '200ms'\n",
            self.port,
            self.home().display()
        );
        let file = self.home().join("data/postgresql.auto.conf");
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(config.as_bytes()).unwrap();
    }

    /// Starts a standby of this server, which confirms every commit.
    pub fn standby(&self) -> Self {
        let standby = Self::at(self.bin.clone());
        standby.follow(self);
        standby
    }

    /// Makes this server, which is down, the standby of `primary`: it gets a copy of it, and confirms every commit.
    pub fn follow(&self, primary: &Self) {
        let _ = fs::remove_dir_all(self.home().join("data"));
        let (from, port) = (
            primary.home().display().to_string(),
            primary.port.to_string(),
        );
        let user = ["-h", &from, "-p", &port, "-U", "nsgate"];
        let kind = [
            "-D",
            &self.data(),
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
        ];
        self.run("pg_basebackup", &[&user[..], &kind[..]].concat());
        self.configure();
        self.up();
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("SELECT pg_reload_conf()");
        let confirms = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let start = Instant::now();
        while primary.sql(confirms) != "1" {
            assert!(start.elapsed() < PATIENCE, "the standby never confirms");
            sleep(Duration::from_millis(20));
        }
    }

    /// Lets every commit wait for a standby that there is not, from now on.
    pub fn miss_standby(&self) {
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'absent'");
        self.sql("SELECT pg_reload_conf()");
        let start = Instant::now();
        while self.sql("SHOW synchronous_standby_names") != "absent" {
            assert!(start.elapsed() < PATIENCE, "it is never read");
            sleep(Duration::from_millis(20));
        }
        // Its checkpointer lets the others wait, once it has read the file too: before the second checkpoint at the latest.
        self.sql("CHECKPOINT");
        self.sql("CHECKPOINT");
    }

    /// Lets no commit wait for a standby any more.
    pub fn need_no_standby(&self) {
        self.sql("ALTER SYSTEM RESET synchronous_standby_names");
        self.sql("SELECT pg_reload_conf()");
    }

    /// Makes this standby the primary. It waits for no standby of its own until there is one.
    pub fn promote(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "promote"]);
        self.need_no_standby();
    }

    /// The address on the Unix socket, where no password is asked for.
    pub fn socket(&self) -> String {
        format!(
            "postgres://nsgate@/postgres?host={}&port={}",
            self.home().display(),
            self.port
        )
    }

    /// The address on loopback, or of a relay on `port`.
    pub fn loopback(&self, port: u16) -> String {
        format!("postgres://nsgate@127.0.0.1:{port}/postgres")
    }

    /// Lets the server speak TLS with this certificate and key, and accept nothing else on loopback.
    pub fn require_tls(&self, certificate: &str, key: &str, client_ca: &str) {
        let files = [
            ("server.crt", certificate),
            ("server.key", key),
            ("ca.crt", client_ca),
        ];
        for (name, text) in files {
            let file = self.home().join("data").join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            if is_root(self.folder.path()) {
                chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let access = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n";
        fs::write(self.home().join("data/pg_hba.conf"), access).unwrap();
        self.sql("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'");
        self.sql("ALTER SYSTEM SET ssl = on");
        self.sql("SELECT pg_reload_conf()");
    }

    /// Starts the server again.
    pub fn up(&self) {
        let log = self.home().join("server.log");
        let log = log.display().to_string();
        self.run(
            "pg_ctl",
            &["-D", &self.data(), "-w", "-t", "60", "-l", &log, "start"],
        );
    }

    /// Ends the server as a power loss does.
    pub fn crash(&self) {
        self.run(
            "pg_ctl",
            // On a busy machine it takes its time.
            &[
                "-D",
                &self.data(),
                "-w",
                "-t",
                "300",
                "-m",
                "immediate",
                "stop",
            ],
        );
    }

    /// Copies what this server, which is down, has on its disk.
    pub fn copy(&self) {
        self.run("/bin/cp", &["-a", &self.data(), &self.old()]);
    }

    /// Puts that copy back. The server is down.
    pub fn put_back(&self) {
        fs::remove_dir_all(self.data()).unwrap();
        fs::rename(self.old(), self.data()).unwrap();
    }

    /// Runs SQL, and returns what it prints.
    pub fn sql(&self, sql: &str) -> String {
        let output = self.run("psql", &self.to_psql(&["-c", sql]));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Locks a table until the returned session is dropped: nobody else writes it meanwhile.
    pub fn lock(&self, table: &str) -> Session {
        self.lock_as(table, "EXCLUSIVE")
    }

    /// Does the same; nobody else reads it, either.
    pub fn lock_out(&self, table: &str) -> Session {
        self.lock_as(table, "ACCESS EXCLUSIVE")
    }

    fn lock_as(&self, table: &str, mode: &str) -> Session {
        let mut psql = self.command("psql", &self.to_psql(&[]));
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let lock = format!("BEGIN; LOCK TABLE {table} IN {mode} MODE; SELECT 'locked';\n");
        let stdin = psql.stdin.as_mut().unwrap();
        stdin.write_all(lock.as_bytes()).unwrap();
        let mut said = String::new();
        let stdout = psql.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        assert_eq!(said.trim(), "locked");
        Session(psql)
    }

    fn to_psql(&self, more: &[&str]) -> Vec<String> {
        let (home, port) = (self.home().display().to_string(), self.port.to_string());
        let mut arguments = vec!["-h", &home, "-p", &port, "-U", "nsgate", "-d", "postgres"];
        arguments.extend(["-XAtq", "-v", "ON_ERROR_STOP=1"]);
        arguments.extend(more);
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("pg")
    }

    fn data(&self) -> String {
        self.home().join("data").display().to_string()
    }

    fn old(&self) -> String {
        self.home().join("old").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> Output {
        let output = self.command(program, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let log = fs::read_to_string(self.home().join("server.log")).unwrap_or_default();
        assert!(
            output.status.success(),
            "{program}: {said}\nthe server: {log}"
        );
        output
    }

    fn command(&self, program: &str, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.args(arguments).current_dir(self.home());
        if is_root(self.folder.path()) {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

/// A session with an open transaction, which is rolled back when this is dropped.
pub struct Session(Child);

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stop = ["-D", &self.data(), "-m", "immediate", "-w", "stop"];
        let _ = self.command("pg_ctl", &stop).output();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// True if the tests run as root: what they create belongs to it.
fn is_root(made: &Path) -> bool {
    fs::metadata(made).unwrap().uid() == 0
}

/// Finds the programs of the newest server that is installed.
fn bin() -> Option<PathBuf> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&in_path);
    let mut packaged: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    packaged.sort();
    let has = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "psql"]
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    packaged.into_iter().rev().chain(in_path).find(has)
}
