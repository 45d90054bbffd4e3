//! Rust source as a list of tokens: `tokens`, a scanner, and `Token`.
//!
//! It drops comments (nested ones too), strings, characters and lifetimes, and marks the tokens of
//! items that only tests compile. `attribute` and `after_bracket` find their way in the list.
//!
//! What must hold: every token has the line that it stands in.
//!
//! Callers: `layers::source`, which reads paths and items out of the list; `layers::rooms`, for
//! what `lib.rs` holds.

/// A name, a `::`, or one other visible character.
pub(super) struct Token {
    /// Line number, from 1.
    pub(super) line: usize,
    /// The characters.
    pub(super) text: String,
    /// Whether the token belongs to an item under `#[cfg(test)]`.
    pub(super) in_test: bool,
}

/// Whether a token is a name or a keyword.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The position after the bracket that closes the one at `open`; the end if none does.
pub(super) fn after_bracket(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The range of tokens inside the attribute that begins at `at`, and the position after it.
pub(super) fn attribute(tokens: &[Token], at: usize) -> Option<(std::ops::Range<usize>, usize)> {
    let text = |n: usize| tokens.get(at + n).map_or("", |token| token.text.as_str());
    if text(0) != "#" {
        return None;
    }
    let open = if text(1) == "!" { at + 2 } else { at + 1 };
    if tokens.get(open)?.text != "[" {
        return None;
    }
    let after = after_bracket(tokens, open);
    Some((open + 1..after.saturating_sub(1).max(open + 1), after))
}

/// Marks the items that stand under an attribute `cfg` that asks for `test`.
fn mark_tests(tokens: &mut [Token]) {
    let mut at = 0;
    while at < tokens.len() {
        let Some((inside, mut after)) = attribute(tokens, at) else {
            at += 1;
            continue;
        };
        let says = |word: &str| tokens[inside.clone()].iter().any(|token| token.text == word);
        if !(tokens[inside.start].text == "cfg" && says("test") && !says("not")) {
            at = after;
            continue;
        }
        while let Some((_, next)) = attribute(tokens, after) {
            after = next;
        }
        let end = item_end(tokens, after);
        tokens[at..end].iter_mut().for_each(|token| token.in_test = true);
        at = end;
    }
}

/// The position after the item at `at`: after its `;`, or after its body.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            ";" => return at + 1,
            "{" => return after_bracket(tokens, at),
            "(" | "[" => at = after_bracket(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Rust source without comments, strings, characters and lifetimes.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        let rest = &bytes[at..];
        let token = match rest[0] {
            b'/' if rest.starts_with(b"//") => {
                at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                None
            }
            b'/' if rest.starts_with(b"/*") => {
                at += block_comment_len(rest);
                None
            }
            b'"' => {
                at += string_len(rest);
                None
            }
            b'\'' => {
                at += quote_len(rest);
                None
            }
            b'r' | b'b' | b'c' if raw_string_len(rest).is_some() => {
                at += raw_string_len(rest).unwrap_or(1);
                None
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                at += rest.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || byte == b'_').count();
                Some(&source[start..at])
            }
            b':' if rest.starts_with(b"::") => {
                at += 2;
                Some("::")
            }
            byte if byte.is_ascii_graphic() => {
                at += 1;
                Some(&source[start..at])
            }
            _ => {
                at += 1;
                None
            }
        };
        if let Some(text) = token {
            tokens.push(Token { line, text: text.to_owned(), in_test: false });
        }
        line += bytes[start..at].iter().filter(|&&byte| byte == b'\n').count();
    }
    mark_tests(&mut tokens);
    tokens
}

/// Block comments nest.
fn block_comment_len(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A character literal as a whole; of a lifetime only the quote.
fn quote_len(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|&byte| byte == b'\'').map_or(rest.len(), |n| n + 4);
    }
    let text = String::from_utf8_lossy(&rest[1..rest.len().min(6)]);
    match text.chars().next() {
        Some(c) if rest.get(1 + c.len_utf8()) == Some(&b'\'') => c.len_utf8() + 2,
        _ => 1,
    }
}

/// The length of a string literal with a prefix (`r"`, `r#"`, `b"`, `br#"`, `c"`), if one starts
/// here.
fn raw_string_len(rest: &[u8]) -> Option<usize> {
    let letters = rest.iter().take_while(|byte| b"rbc".contains(byte)).count();
    if letters > 2 {
        return None;
    }
    let raw = rest[..letters].contains(&b'r');
    let hashes = rest[letters..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(letters + hashes) != Some(&b'"') || (hashes > 0 && !raw) {
        return None;
    }
    if !raw {
        return Some(letters + string_len(&rest[letters..]));
    }
    let end = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let open = letters + hashes + 1;
    let body = rest[open..].windows(end.len()).position(|window| window == end)?;
    Some(open + body + end.len())
}
