//! `wf convert` and `wf verify`: what they write, what they refuse, and what is left when they die.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::program::command;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");
const STORY: &str = "Once upon a time, there was a little";

fn wf(args: &[&str]) -> Output {
    command(args).output().expect("wf runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = wf(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn refusal(args: &[&str]) -> String {
    let output = wf(args);
    let message = stderr(&output);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A directory, and names in it as text.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// A checkpoint of this repository with random weights.
fn random(name: &str) -> String {
    format!("{}/../../tests/data/random/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_format_writes_the_same_story() {
    let room = Room::new();
    let expected = json(&["run", "--json", "--raw", STORY, "-n", "24"])["ids"].clone();
    let encodings =
        ["i2_s", "tq1_0", "tq2_0", "q2_0", "q2_0_g128", "iq2_bn", "iq1_bn", "iq2_bn_r4"];
    let gguf = encodings.map(|encoding| (format!("{encoding}.gguf"), vec!["--encoding", encoding]));
    let others = ["packed", "model.bin", "model.wf"].map(|name| (name.to_owned(), vec![]));
    for (name, more) in gguf.into_iter().chain(others) {
        let out = room.at(&name);
        let told = json(&[&["convert", DEMO, &out, "--json"][..], &more].concat());
        assert_eq!(told["verified"]["probe"]["equal"], true, "{name}: {told}");
        assert_eq!(told["verified"]["rounded_scales"], 0, "{name}");
        let ids = json(&["run", "--json", "--raw", &out, STORY, "-n", "24"])["ids"].clone();
        assert_eq!(ids, expected, "{name}");
    }
}

#[test]
fn every_head_is_written_within_its_bound() {
    let room = Room::new();
    let mut sizes = Vec::new();
    for head in ["f32", "f16", "bf16", "q8_0", "q6_k", "q4_0"] {
        let out = room.at(&format!("{head}.gguf"));
        let told = json(&["convert", DEMO, &out, "--head", head, "--json"]);
        let probe = &told["verified"]["probe"];
        let exact = matches!(head, "f32" | "bf16");
        assert_eq!(probe["equal"], exact, "{head}: {told}");
        assert!(probe["cosine"].as_f64().unwrap() > 0.99, "{head}: {told}");
        sizes.push(fs::metadata(&out).unwrap().len());
    }
    assert!(sizes[2] > sizes[3] && sizes[3] > sizes[4] && sizes[4] > sizes[5], "{sizes:?}");
    let packed = room.at("packed.gguf");
    let output = wf(&["convert", DEMO, &packed, "--pack-lm-head"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("Q6_K: costs 0.23 % in perplexity"), "{told}");
    assert_eq!(fs::read(&packed).unwrap(), fs::read(room.path("q6_k.gguf")).unwrap());
    let message = refusal(&["convert", DEMO, &room.at("packed.bin"), "--pack-lm-head"]);
    assert!(
        message.contains("Convert to a .gguf") && message.contains("--head scan4"),
        "{message}"
    );
    let message = refusal(&["convert", DEMO, &room.at("dir"), "--head", "q6_k"]);
    assert!(message.contains("allowed are f32, f16 and bf16"), "{message}");
}

#[test]
fn the_file_is_the_same_for_any_number_of_threads() {
    let room = Room::new();
    let source = random("auto-online-gqa-untied");
    let bytes = |name: &str, threads: &str| {
        let out = room.at(name);
        json(&["convert", &source, &out, "--threads", threads, "--json"]);
        fs::read(out).unwrap()
    };
    assert!(bytes("1.gguf", "1") == bytes("3.gguf", "3"));
}

#[test]
fn nothing_is_replaced_unasked() {
    let room = Room::new();
    let (out, dir) = (room.at("model.gguf"), room.at("dir"));
    fs::write(&out, "mine").unwrap();
    let message = refusal(&["convert", DEMO, &out]);
    assert!(message.contains("model.gguf exists: use --force to replace it"), "{message}");
    assert_eq!(fs::read(&out).unwrap(), b"mine");
    json(&["convert", DEMO, &out, "--force", "--json"]);
    assert!(fs::read(&out).unwrap().starts_with(b"GGUF"));

    fs::create_dir(&dir).unwrap();
    fs::write(room.path("dir/diary"), "mine").unwrap();
    assert!(refusal(&["convert", DEMO, &dir]).contains("exists"));
    let message = refusal(&["convert", DEMO, &dir, "--force"]);
    assert!(message.contains("\"diary\""), "{message}");
    assert_eq!(names(&room.path("dir")), ["diary"]);

    let message = refusal(&["convert", &out, &out, "--force"]);
    assert!(message.contains("source and destination are the same"), "{message}");
    let message = refusal(&["convert", DEMO, &room.at("none/model.gguf")]);
    assert!(message.contains("does not exist"), "{message}");
    assert_eq!(names(room.0.path()), ["dir", "model.gguf"]);
}

#[test]
fn the_tokenizer_of_another_model_is_never_replaced() {
    let room = Room::new();
    json(&["convert", DEMO, &room.at("a.bin"), "--json"]);
    let reply =
        |name: &str| json(&["run", "--json", &room.at(name), "hello", "-n", "8"])["ids"].clone();
    let before = reply("a.bin");
    // Another model of the same family may share the files.
    json(&["convert", DEMO, &room.at("b.bin"), "--json"]);
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        let (path, own) = (room.path(name), fs::read(room.path(name)).unwrap());
        let others = [&own[..], b" "].concat();
        fs::write(&path, &others).unwrap();
        for flags in [&["--force"][..], &[]] {
            let bin = room.at(if flags.is_empty() { "c.bin" } else { "b.bin" });
            let message = refusal(&[&["convert", DEMO, &bin][..], flags].concat());
            for words in [name, "another model", "directory of its own"] {
                assert!(message.contains(words), "{words}: {message}");
            }
        }
        assert_eq!(fs::read(&path).unwrap(), others, "{name}");
        fs::write(&path, own).unwrap();
    }
    fs::write(room.path("chat_template.jinja"), "{{ messages }}").unwrap();
    let message = refusal(&["convert", DEMO, &room.at("b.bin"), "--force"]);
    assert!(message.contains("chat_template.jinja"), "{message}");
    fs::remove_file(room.path("chat_template.jinja")).unwrap();
    let expected =
        ["a.bin", "b.bin", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];
    assert_eq!(names(room.0.path()), expected);
    json(&["convert", DEMO, &room.at("b.bin"), "--force", "--json"]);
    assert_eq!(reply("a.bin"), before);
}

#[test]
fn a_dry_run_says_what_would_be_written() {
    let room = Room::new();
    let out = room.at("model.gguf");
    let told = json(&["convert", DEMO, &out, "--encoding", "tq1_0", "--dry-run", "--json"]);
    assert_eq!(told["encoding"], "TQ1_0");
    assert!(told["seconds"].is_null() && told["verified"].is_null());
    assert!(names(room.0.path()).is_empty());
    json(&["convert", DEMO, &out, "--encoding", "tq1_0", "--json"]);
    let written = fs::metadata(&out).unwrap().len();
    let planned = told["tensor_bytes"].as_u64().unwrap();
    // The rest is names, settings and the vocabulary.
    assert!(planned < written && written < planned + 400_000, "{planned} {written}");
}

#[test]
fn what_does_not_fit_is_said_with_what_does() {
    let room = Room::new();
    let out = room.at("model.gguf");
    let narrow = random("auto-online-gqa-untied");
    let message = refusal(&["convert", &narrow, &out, "--encoding", "tq2_0"]);
    assert!(message.contains("TQ2_0 requires columns in multiples of 256"), "{message}");
    assert!(
        message.contains("encodings that fit every tensor: ") && message.contains("IQ2_BN"),
        "{message}"
    );
    assert!(message.contains("packed safetensors"), "{message}");
    let message = refusal(&["convert", DEMO, &room.at("x"), "--encoding", "tq2_0"]);
    assert!(message.contains("requires GGUF"), "{message}");
    let message = refusal(&["convert", DEMO, &room.at("x.foo")]);
    assert!(message.contains("use .gguf, .wf, .bin or a directory"), "{message}");
    let message = refusal(&["convert", DEMO, &out, "--group", "64"]);
    assert!(message.contains("--group requires master weights"), "{message}");
    assert!(names(room.0.path()).is_empty());
}

#[test]
fn master_weights_get_a_scale_for_each_group() {
    let room = Room::new();
    let source = random("auto-online-gqa-untied");
    let whole = room.at("whole.gguf");
    json(&["convert", &source, &whole, "--json"]);
    let grouped = room.at("grouped.gguf");
    let told = json(&["convert", &source, &grouped, "--group", "64", "--json"]);
    assert_eq!(told["encoding"], "Q2_0 groups of 64");
    // f16 scales of means: rounded, and told.
    assert!(told["verified"]["rounded_scales"].as_u64().unwrap() > 0, "{told}");
    assert!(told["verified"]["scale_change"].as_f64().unwrap() <= 1.0 / 2048.0, "{told}");
    let message = refusal(&["verify", &whole, &grouped]);
    assert!(message.contains("trits"), "{message}");
    let message =
        refusal(&["convert", &source, &room.at("x.gguf"), "--group", "64", "--encoding", "iq2_bn"]);
    assert!(message.contains("one scale per group: TQ2_0, TQ1_0, Q2_0 groups of 64"), "{message}");
}

#[test]
fn a_model_that_is_not_ternary_is_refused_unless_it_is_for_speed() {
    let room = Room::new();
    let source = room.path("plain");
    fs::create_dir(&source).unwrap();
    for entry in fs::read_dir(random("auto-online-gqa-untied")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, source.join(from.file_name().unwrap())).unwrap();
    }
    let config = fs::read_to_string(source.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config.as_object_mut().unwrap().remove("quantization_config");
    fs::write(source.join("config.json"), config.to_string()).unwrap();
    let (source, out) = (source.to_str().unwrap().to_owned(), room.at("naive.gguf"));
    let message = refusal(&["convert", &source, &out]);
    assert!(message.contains("quantization_config") && message.contains("--naive"), "{message}");
    let told = json(&["convert", &source, &out, "--naive", "--json"]);
    assert!(told["decisions"].to_string().contains("for speed tests only"), "{told}");
    let proper = room.at("proper.gguf");
    json(&["convert", &random("auto-online-gqa-untied"), &proper, "--json"]);
    assert!(fs::read(&out).unwrap() == fs::read(&proper).unwrap(), "the same rounding");
}

#[test]
fn two_models_that_differ_in_one_trit_differ() {
    let room = Room::new();
    let (one, two) = (room.at("one.gguf"), room.at("two.gguf"));
    json(&["convert", DEMO, &one, "--json"]);
    let mut bytes = fs::read(&one).unwrap();
    // A byte of trits: the middle of the file is past the embedding.
    let at = bytes.len() * 3 / 4;
    let field = bytes[at] & 3;
    bytes[at] = (bytes[at] & !3) | if field == 0 { 1 } else { 0 };
    fs::write(&two, bytes).unwrap();
    let same = json(&["verify", &one, DEMO, "--exact", "--json"]);
    assert_eq!(same["different"].as_array().unwrap().len(), 0);
    assert_eq!(same["probe"]["equal"], true);
    let message = refusal(&["verify", &one, &two]);
    assert!(message.contains("blk.") && message.contains("1 of "), "{message}");
}

/// Runs a conversion until its unfinished file has this many bytes, or it ends.
fn run_until(mut child: Child, room: &Room, name: &str, len: u64) -> Child {
    let is_far = |entry: fs::DirEntry| {
        let partial = entry.file_name().to_string_lossy().ends_with(".partial");
        partial && entry.metadata().is_ok_and(|found| found.len() >= len)
    };
    loop {
        let far = fs::read_dir(room.0.path()).unwrap().flatten().any(is_far);
        if far || room.path(name).exists() || child.try_wait().unwrap().is_some() {
            return child;
        }
        std::thread::yield_now();
    }
}

fn start(args: &[&str]) -> Child {
    command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_killed_conversion_leaves_a_whole_file_or_none() {
    let room = Room::new();
    let reference = room.at("reference.gguf");
    json(&["convert", DEMO, &reference, "--json"]);
    let expected = fs::read(&reference).unwrap();
    let out = room.at("model.gguf");
    let mut absent = 0;
    for instant in 0..50u64 {
        let child = start(&["convert", DEMO, &out]);
        let len = expected.len() as u64 * instant / 49;
        let mut child = run_until(child, &room, "model.gguf", len);
        child.kill().unwrap();
        child.wait().unwrap();
        match fs::read(&out) {
            Ok(found) => {
                assert!(found == expected, "instant {instant}");
                fs::remove_file(&out).unwrap();
            }
            Err(_) => absent += 1,
        }
    }
    assert!(absent > 25, "only {absent} were killed before they were done");
    json(&["convert", DEMO, &out, "--json"]);
    assert!(fs::read(&out).unwrap() == expected);
    assert_eq!(names(room.0.path()), ["model.gguf", "reference.gguf"], "leftovers");
}

#[test]
fn a_source_that_is_cut_short_meanwhile_is_an_error_with_a_name() {
    let room = Room::new();
    let reference = room.at("reference.gguf");
    json(&["convert", DEMO, &reference, "--json"]);
    let expected = fs::read(&reference).unwrap();
    let (source, out) = (room.at("source"), room.at("model.gguf"));
    let mut refused = 0;
    for instant in 0..10u64 {
        fs::copy(DEMO, &source).unwrap();
        let child = start(&["convert", &source, &out, "--no-verify"]);
        let len = expected.len() as u64 * instant / 10;
        let child = run_until(child, &room, "model.gguf", len.max(1));
        fs::OpenOptions::new().write(true).open(&source).unwrap().set_len(1 << 20).unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            assert!(fs::read(&out).unwrap() == expected, "instant {instant}");
            fs::remove_file(&out).unwrap();
            continue;
        }
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let told = message.contains("truncated") || message.contains("was modified while");
        assert!(told && message.contains("source"), "{message}");
        assert!(!Path::new(&out).exists());
        refused += 1;
    }
    assert!(refused > 0, "every conversion was done before the cut");
    let _ = fs::remove_file(&source);
    assert_eq!(names(room.0.path()), ["reference.gguf"]);
}

#[test]
fn of_four_at_once_one_writes() {
    let room = Room::new();
    let out = room.at("model.gguf");
    let children: Vec<Child> = (0..4).map(|_| start(&["convert", DEMO, &out])).collect();
    let outputs: Vec<Output> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    assert_eq!(outputs.iter().filter(|output| output.status.success()).count(), 1);
    for output in outputs.iter().filter(|output| !output.status.success()) {
        assert!(stderr(output).contains("exists"), "{}", stderr(output));
    }
    json(&["verify", DEMO, &out, "--json"]);
    assert_eq!(names(room.0.path()), ["model.gguf"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let room = Room::new();
    let small = room.at("small");
    fs::create_dir(&small).unwrap();
    let script = "mount -t tmpfs -o size=8m tmpfs \"$1\" || exit 77
        \"$2\" convert \"$3\" \"$1/model.gguf\"; echo \"code $?\"; ls -A \"$1\"
        \"$2\" convert \"$3\" \"$1/packed\"; echo \"code $?\"; ls -A \"$1\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", &small])
        .args([env!("CARGO_BIN_EXE_wf"), DEMO])
        .output();
    let Some(output) = output.ok().filter(|output| output.status.code() == Some(0)) else {
        println!("skipped: a small file system cannot be mounted here");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "code 1\ncode 1\n");
    let message = stderr(&output);
    assert_eq!(message.matches("No space left").count(), 2, "{message}");
    assert_eq!(message.matches(" MB are required").count(), 2, "{message}");
    assert!(message.contains("small/model.gguf: "), "{message}");
}

/// Our own file through every command that takes a model, and what each says of one that is damaged.
#[test]
fn a_wf_file_runs_converts_and_tells_of_damage() {
    let room = Room::new();
    let (file, back) = (room.at("demo.wf"), room.at("back.gguf"));
    let told = json(&["convert", DEMO, &file, "--json", "--dry-run"]);
    assert!(!room.path("demo.wf").exists());
    json(&["convert", DEMO, &file, "--json"]);
    let inspection = json(&["inspect", &file, "--json", "--tensors"]);
    let sizes = inspection["tensors"].as_array().unwrap().iter();
    let stored: u64 = sizes.map(|tensor| tensor["size_bytes"].as_u64().unwrap()).sum();
    assert_eq!(told["tensor_bytes"], stored);
    assert_eq!(
        (&inspection["format"], &inspection["sound"]),
        (&"WrinkleFree".into(), &true.into())
    );
    assert_eq!(inspection["digest"].as_str().unwrap().len(), 64);
    let straight = room.at("straight.gguf");
    json(&["convert", DEMO, &straight, "--json"]);
    json(&["convert", &file, &back, "--json"]);
    assert!(fs::read(&back).unwrap() == fs::read(&straight).unwrap(), "there and back again");
    assert_eq!(json(&["verify", DEMO, &file, "--exact", "--json"])["probe"]["equal"], true);
    let five = json(&["run", "--json", "--raw", &file, STORY, "-n", "8", "--layout", "five-trits"]);
    let four = json(&["run", "--json", "--raw", &file, STORY, "-n", "8", "--layout", "quad-lines"]);
    assert_eq!(five["ids"], four["ids"]);

    let tensors = inspection["tensors"].as_array().unwrap();
    let damaged = tensors.iter().find(|t| t["name"] == "blk.3.ffn_up.weight").unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[damaged["offset"].as_u64().unwrap() as usize + 1000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let story = room.at("story.txt");
    fs::write(&story, STORY).unwrap();
    for args in [
        &["run", &file, "hello"][..],
        &["run", &file, "hello", "--layout", "five-trits"],
        &["inspect", &file],
        &["verify", DEMO, &file],
        &["convert", &file, &room.at("never.gguf")],
        &["eval", "perplexity", &file, &story],
    ] {
        let output = wf(args);
        assert!(!output.status.success(), "{args:?}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        assert!(
            told.contains("blk.3.ffn_up.weight") && told.contains("damaged"),
            "{args:?}: {told}"
        );
    }
}
