package pawl

// EscapePath makes s, a resource's key say, safe to be put behind a "/" in the
// path of an HTTPRequest: all but letters, digits, "-", ".", "_" and "~" is
// percent-encoded. Slashes stay: they separate segments.
//
// It can't help against segments that servers resolve: the host refuses paths
// with empty, "." and ".." segments, and the call ends as rejected.
func EscapePath(s string) string { return escape(s, true) }

// EscapeSegment is EscapePath with slashes encoded too, as %2F: for one value
// in a query. In a path the host refuses %2F, which servers take for a slash or not.
func EscapeSegment(s string) string { return escape(s, false) }

func escape(s string, slashes bool) string {
	more := 0
	for i := range len(s) {
		if !unreserved(s[i], slashes) {
			more += 2
		}
	}
	if more == 0 {
		return s
	}
	const upperDigits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+more)
	for i := range len(s) {
		if c := s[i]; unreserved(c, slashes) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperDigits[c>>4], upperDigits[c&15])
		}
	}
	return string(b)
}

// unreserved reports whether c stands for itself in a URL (RFC 3986).
func unreserved(c byte, slashes bool) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~' || c == '/' && slashes
}
