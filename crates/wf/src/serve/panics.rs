//! Panics as one line of the log.

use std::panic::{Location, PanicHookInfo};
use std::thread;

/// Logs panics from now on, instead of printing them.
pub(crate) fn log() {
    std::panic::set_hook(Box::new(|info: &PanicHookInfo<'_>| {
        let current = thread::current();
        report(current.name().unwrap_or_default(), info.location(), info.payload_as_str());
    }));
}

/// The message may quote a text that was processed, so it is logged only on request.
fn report(thread: &str, location: Option<&Location<'_>>, message: Option<&str>) {
    let location = location.map(ToString::to_string);
    tracing::error!(thread, location, "panic");
    tracing::debug!(thread, message, "message of the panic");
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::Level;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(level: Level) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(level)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            report("wf-engine", Some(Location::caller()), Some("a secret prompt"));
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_panic_is_one_line_without_its_message() {
        let text = logged(Level::INFO);
        assert_eq!(text.lines().count(), 1, "{text}");
        for word in ["panic", "wf-engine", "panics.rs:"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("secret"));
        assert!(logged(Level::DEBUG).contains("a secret prompt"));
    }
}
