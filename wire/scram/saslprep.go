package scram

import (
	"sort"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// codePoints is a set of code points: the first and the last of each range, in
// ascending order.
type codePoints []rune

func (s codePoints) has(r rune) bool {
	i := 2 * sort.Search(len(s)/2, func(i int) bool { return s[2*i+1] >= r })
	return i < len(s) && s[i] <= r
}

func (s codePoints) hasAny(rs []rune) bool {
	for _, r := range rs {
		if s.has(r) {
			return true
		}
	}
	return false
}

// Prepare is what Postgres makes of a password before it derives keys: SASLprep,
// or the bytes as they are if those are ASCII, not UTF-8, or contain what
// SASLprep prohibits. Like Postgres, and unlike the letter of the standard, it
// looks for the latter before the normalisation: only so the keys are the same.
func Prepare(password string) string {
	if isASCII(password) || !utf8.ValidString(password) {
		return password
	}
	rs := mapped(password)
	if len(rs) == 0 || prohibited.hasAny(rs) || unassigned.hasAny(rs) || mixesDirections(rs) {
		return password
	}
	return norm.NFKC.String(string(rs))
}

// mapped is the first step: unusual spaces become spaces, invisible characters
// go.
func mapped(s string) []rune {
	rs := make([]rune, 0, len(s))
	for _, r := range s {
		switch {
		case spaces.has(r):
			rs = append(rs, ' ')
		case !dropped.has(r):
			rs = append(rs, r)
		}
	}
	return rs
}

// mixesDirections reports a string with right-to-left characters that also has
// left-to-right ones, or does not begin and end with right-to-left ones.
func mixesDirections(rs []rune) bool {
	if !rightToLeft.hasAny(rs) {
		return false
	}
	return leftToRight.hasAny(rs) || !rightToLeft.has(rs[0]) || !rightToLeft.has(rs[len(rs)-1])
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
