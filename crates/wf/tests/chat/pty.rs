//! A program on a terminal of its own: what it shows is awaited, what it reads is typed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Something that does not come for so long never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running program and its terminal.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<Vec<u8>>,
    /// All it has shown.
    pub(crate) screen: String,
    /// Where what was not awaited yet begins.
    seen: usize,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    /// Starts `program`, with the terminal as that of its session, so that Ctrl-C is a signal to it.
    pub(crate) fn start(program: &Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let user: OwnedFd = rustix::fs::open(name, flags, Mode::empty()).unwrap();

        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let end = || Stdio::from(user.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // The last ends that are open are the program's: its end is the end of what it shows.
        drop((command, user));
        let mut screen = File::from(controller.try_clone().unwrap());
        let (sender, shown) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A terminal that nobody has open any more is an error to read.
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { child, keys: File::from(controller), shown, screen: String::new(), seen: 0 }
    }

    /// Types `keys`.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.keys(&format!("{line}\r"));
    }

    /// Waits until `text` is shown, after all that was awaited before, and gives what came before it.
    pub(crate) fn wait(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.screen[self.seen..].find(text) {
                let before = self.screen[self.seen..self.seen + at].to_owned();
                self.seen += at + text.len();
                return before;
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.shown.recv_timeout(left) {
                Ok(bytes) => self.screen += &String::from_utf8_lossy(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("no {text:?} in {:?}", self.screen),
                Err(_) => panic!("it ended without {text:?}: {:?}", self.screen),
            }
        }
    }

    /// Waits until a line can be typed. rustyline turns bracketed paste on then.
    pub(crate) fn prompt(&mut self) -> String {
        self.wait("\x1b[?2004h")
    }

    /// Waits for the end of the program.
    pub(crate) fn end(&mut self) -> ExitStatus {
        while let Ok(bytes) = self.shown.recv_timeout(PATIENCE) {
            self.screen += &String::from_utf8_lossy(&bytes);
        }
        self.child.wait().unwrap()
    }
}
