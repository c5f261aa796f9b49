package config

import (
	"regexp"
	"strings"
)

// mask replaces what may be a password in a line of a file and moves the place along. It
// would rather hide too much: the line is shown because something in it is wrong.
func mask(line string, at span) (string, span) {
	for _, find := range []func(string) (span, bool){urlPassword, unfinishedURL, loosePassword, namedPassword} {
		found, ok := find(line)
		if !ok {
			continue
		}
		line = line[:found.from] + hidden + line[found.to:]
		move := func(offset, inside int) int {
			switch {
			case offset <= found.from:
				return offset
			case offset >= found.to:
				return offset - (found.to - found.from) + len(hidden)
			default:
				return inside
			}
		}
		at = span{move(at.from, found.from), move(at.to, found.from+len(hidden))}
	}
	return line, at
}

// urlPassword finds the password of a URL, up to the last @ of the line, because one in the
// password may have been left as it is.
func urlPassword(line string) (span, bool) {
	return group(line, `://[^:/@\s"'\[]*:(.+)@`)
}

// unfinishedURL finds what stands at the place of a port in a URL without @, unless it is a
// port: then it is a password, and the rest was forgotten.
func unfinishedURL(line string) (span, bool) {
	found, ok := group(line, `://[^:/@\s"'\[]*:([^@"']+)`)
	if !ok {
		return span{}, false
	}
	if strings.HasPrefix(line[found.to:], "@") {
		return span{}, false // urlPassword's
	}
	_, isPort := group(line[found.from:], `^([0-9]*)(?:[/?,\s"']|$)`)
	return found, !isPort
}

// loosePassword finds what stands between a colon and an @ in something that was meant to
// be a URL.
func loosePassword(line string) (span, bool) {
	return group(line, `:([^/\s].*)@`)
}

// namedPassword finds the value of a key that sounds like a secret, in TOML as in a URL.
func namedPassword(line string) (span, bool) {
	return group(line, `(?i)(?:pass|passwd|pwd|password|passphrase|secret|token)["']?\s*[=:]\s*["']?([^"'\s].*)`)
}

// group is where the first group of the pattern matches.
func group(text, pattern string) (span, bool) {
	m := regexp.MustCompile(pattern).FindStringSubmatchIndex(text)
	if m == nil {
		return span{}, false
	}
	return span{m[2], m[3]}, true
}
