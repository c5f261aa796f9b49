package document

import (
	"regexp"
	"strings"
)

// mask replaces what may be a password in a line of a file and moves the place along. It
// would rather hide too much: the line is shown because something in it is wrong.
func mask(line string, at Span) (string, Span) {
	for _, find := range []func(string) (Span, bool){urlPassword, unfinishedURL, loosePassword, namedPassword} {
		found, ok := find(line)
		if !ok {
			continue
		}
		line = line[:found.From] + Hidden + line[found.To:]
		move := func(offset, inside int) int {
			switch {
			case offset <= found.From:
				return offset
			case offset >= found.To:
				return offset - (found.To - found.From) + len(Hidden)
			default:
				return inside
			}
		}
		at = Span{move(at.From, found.From), move(at.To, found.From+len(Hidden))}
	}
	return line, at
}

// urlPassword finds the password of a URL, up to the last @ of the line, because one in the
// password may have been left as it is.
func urlPassword(line string) (Span, bool) {
	return group(line, `://[^:/@\s"'\[]*:(.+)@`)
}

// unfinishedURL finds what stands at the place of a port in a URL without @, unless it is a
// port: then it is a password, and the rest was forgotten.
func unfinishedURL(line string) (Span, bool) {
	found, ok := group(line, `://[^:/@\s"'\[]*:([^@"']+)`)
	if !ok {
		return Span{}, false
	}
	if strings.HasPrefix(line[found.To:], "@") {
		return Span{}, false // urlPassword's
	}
	_, isPort := group(line[found.From:], `^([0-9]*)(?:[/?,\s"']|$)`)
	return found, !isPort
}

// loosePassword finds what stands between a colon and an @ in something that was meant to
// be a URL.
func loosePassword(line string) (Span, bool) {
	return group(line, `:([^/\s].*)@`)
}

// namedPassword finds the value of a key that sounds like a secret, in TOML as in a URL.
func namedPassword(line string) (Span, bool) {
	return group(line, `(?i)(?:pass|passwd|pwd|password|passphrase|secret|token)["']?\s*[=:]\s*["']?([^"'\s].*)`)
}

// group is where the first group of the pattern matches.
func group(text, pattern string) (Span, bool) {
	m := regexp.MustCompile(pattern).FindStringSubmatchIndex(text)
	if m == nil {
		return Span{}, false
	}
	return Span{m[2], m[3]}, true
}

// Hidden stands for a secret wherever text is shown.
const Hidden = "****"
