package hba

import (
	"regexp"
	"strings"
)

// pattern is a word that names databases, roles or system users.
type pattern struct {
	token
	expr *regexp.Regexp // of /expression
}

// patternOf reads one. Quotes do not matter to expressions, as in Postgres.
func patternOf(t token) (pattern, *Problem) {
	p := pattern{token: t}
	source, is := strings.CutPrefix(t.word, "/")
	if !is {
		return p, nil
	}
	expr, why := compile(source)
	if why != "" {
		return p, t.problem("regular expression %q: %s", source, why)
	}
	p.expr = expr
	return p, nil
}

// group is the role of +role.
func (p *pattern) group() (string, bool) {
	if p.quoted || p.expr != nil {
		return "", false
	}
	return strings.CutPrefix(p.word, "+")
}

// maxExpr bounds an expression, in bytes.
const maxExpr = 1000

// compile makes an expression that matches as Postgres's would, or says why it can't: what
// Go reads in another way than Postgres is refused.
func compile(source string) (_ *regexp.Regexp, why string) {
	if len(source) > maxExpr {
		return nil, "too long"
	}
	rest := strings.TrimPrefix(source, "(?i)")
	if why := foreign(rest); why != "" {
		return nil, why
	}
	flags := "(?s)"
	if rest != source {
		flags = "(?is)"
	}
	expr, err := regexp.Compile(flags + rest)
	if err != nil {
		return nil, strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	}
	expr.Longest()
	return expr, ""
}

// foreign finds what Go and Postgres understand in different ways.
func foreign(s string) (why string) {
	for i := 0; i < len(s); i++ {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch s[i] {
		case '\\':
			i++
			if alike := strings.IndexByte("dDsSwWAnrtfv", next) >= 0; !alike && isWord(next) {
				return "pgweir does not know the escape \\" + string(rune(next))
			}
		case '(':
			if next == '?' && !strings.HasPrefix(s[i:], "(?:") {
				return "of what begins with (? pgweir knows (?: and, at the beginning, (?i)"
			}
		case '*', '+', '?', '}':
			if next == '?' {
				return "pgweir does not know " + s[i:i+2] + ", which takes as little as possible"
			}
		case '[':
			n, why := bracket(s[i:])
			if why != "" {
				return why
			}
			i += n
		}
	}
	return ""
}

// isWord reports whether a byte behind a backslash may give it a meaning.
func isWord(c byte) bool {
	return c == '<' || c == '>' || c == 0 || c >= 0x80 || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

// bracket skips a bracket expression and returns the length up to its end.
func bracket(s string) (n int, why string) {
	i := 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	for first := true; i < len(s); i, first = i+1, false {
		switch {
		case s[i] == ']' && !first:
			return i, ""
		case strings.HasPrefix(s[i:], "[:"):
			end := strings.Index(s[i:], ":]")
			if end < 0 {
				return 0, "missing :]"
			}
			i += end + 1
		case strings.HasPrefix(s[i:], "[.") || strings.HasPrefix(s[i:], "[="):
			return 0, "pgweir does not know " + s[i:i+2]
		case s[i] == '\\':
			i++
			if i < len(s) && strings.IndexByte("dsw", s[i]) < 0 && isWord(s[i]) {
				return 0, "pgweir does not know the escape \\" + string(rune(s[i])) + " within [ ]"
			}
		}
	}
	return 0, "missing ]"
}
