//! Values in URLs.

/// Makes a value, a resource's key say, safe to be put behind a "/" in the path
/// of a request: all but letters, digits, "-", ".", "_" and "~" is
/// percent-encoded. Slashes stay: they separate segments.
///
/// It can't help against segments that servers resolve: the host refuses paths
/// with empty, "." and ".." segments, and the call ends as rejected.
pub fn escape_path(value: &str) -> String {
    escape(value, true)
}

/// [`escape_path`] with slashes encoded too, as %2F: for one value in a query.
/// In a path the host refuses %2F, which servers take for a slash or not.
pub fn escape_segment(value: &str) -> String {
    escape(value, false)
}

fn escape(value: &str, slashes: bool) -> String {
    let mut out = String::with_capacity(value.len());
    for &byte in value.as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            b'/' if slashes => out.push('/'),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                out.push('%');
                out.push(DIGITS[usize::from(byte >> 4)].into());
                out.push(DIGITS[usize::from(byte & 15)].into());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_unreserved_is_encoded() {
        assert_eq!(escape_path("team/ü 1-._~?#%\\"), "team/%C3%BC%201-._~%3F%23%25%5C");
        assert_eq!(escape_segment("a/b&c"), "a%2Fb%26c");
    }
}
