//! Checks that the folders of `src` only use the modules that lib.rs allows. Calls go in one direction.

use std::fs;
use std::path::{Path, PathBuf};

/// A module, and the other modules of the crate that it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("temporary", &[]),
    ("net", &[]),
    ("padding", &[]),
    ("input", &["net", "padding"]),
    ("writer", &["input"]),
    ("restore", &["input", "writer"]),
    ("flow", &["net"]),
    ("tcp", &["flow", "net"]),
    ("quic", &["flow", "net", "padding", "temporary"]),
    ("output", &["flow", "net", "quic", "tcp", "temporary"]),
    ("trim", &["input", "padding", "writer"]),
    ("args", &["input", "output", "trim"]),
    ("flow_rows", &["args", "flow", "net", "output", "tcp"]),
    (
        "capture",
        &[
            "args",
            "flow",
            "flow_rows",
            "input",
            "net",
            "output",
            "padding",
            "quic",
            "trim",
        ],
    ),
    (
        "dissect",
        &[
            "args", "capture", "input", "output", "quic", "restore", "trim",
        ],
    ),
    ("lib", &[]),
    ("main", &[]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All files of `src` with their module: the name of the folder or file in `src`.
fn files() -> Vec<(String, PathBuf)> {
    let mut folders = vec![source()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(source()).expect("a path in src");
            let first = inside.iter().next().map(Path::new);
            let module = first.unwrap_or(inside).with_extension("");
            files.push((module.display().to_string(), path));
        }
    }
    files.sort();
    files
}

/// Names after `crate::` in `text`, also in braces. Comments are ignored.
fn used(text: &str) -> Vec<String> {
    let code: Vec<&str> = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join("\n");
    let word = |text: &str| -> String {
        let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
        text.trim_start().chars().take_while(is_part).collect()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => names.push(word(rest)),
            Some(list) => {
                let (mut depth, mut start) = (0, 0);
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth > 0 => depth -= 1,
                        ',' | '}' if depth == 0 => {
                            names.push(word(&list[start..i]));
                            start = i + 1;
                        }
                        _ => {}
                    }
                    if c == '}' && depth == 0 && start == i + 1 {
                        break;
                    }
                }
            }
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The forbidden uses in `text`, which is part of `module`.
fn wrong(module: &str, text: &str) -> Vec<String> {
    let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{module} is not in MAY_USE: say what it may use")];
    };
    used(text)
        .into_iter()
        .filter(|name| name != module && !allowed.contains(&name.as_str()))
        .map(|name| format!("{module} must not use {name}"))
        .collect()
}

#[test]
fn no_folder_uses_one_above_it() {
    let mut found = Vec::new();
    for (module, path) in files() {
        let text = fs::read_to_string(&path).unwrap();
        let here = wrong(&module, &text);
        found.extend(
            here.into_iter()
                .map(|what| format!("{}: {what}", path.display())),
        );
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn what_may_be_used_may_not_use_back() {
    for (upper, used) in MAY_USE {
        for lower in *used {
            let (_, of_lower) = MAY_USE.iter().find(|(name, _)| name == lower).unwrap();
            assert!(
                !of_lower.contains(upper),
                "{upper} and {lower} use each other"
            );
        }
    }
}

#[test]
fn a_lower_folder_that_uses_an_upper_one_is_found() {
    for (module, text, expected) in [
        (
            "net",
            "use crate::flow::table::Live;",
            &["net must not use flow"][..],
        ),
        (
            "flow",
            "use crate::{net::ip, quic::{keylog, recovery}, tcp};",
            &["flow must not use quic", "flow must not use tcp"],
        ),
        (
            "tcp",
            "fn f() { crate::output::Kind::name(kind) }",
            &["tcp must not use output"],
        ),
        (
            "tcp",
            "pub(in crate::tcp) use crate::net::ip::Segment; // crate::output",
            &[],
        ),
        (
            "quic",
            "use crate::{\n    flow::volume,\n    output,\n};\nuse x::{dissect};",
            &["quic must not use output"],
        ),
        ("new", "", &["new is not in MAY_USE: say what it may use"]),
        (
            "output",
            "$crate::Row; use crate::quic::connection::Connection;",
            &[],
        ),
    ] {
        assert_eq!(wrong(module, text), expected, "{text}");
    }
}
