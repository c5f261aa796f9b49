package config

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// name is a text that is not empty and has no control characters.
func name(target *string, admits string, longest int) kind {
	k := kind{admits: cmp.Or(admits, "a name"), get: func() string { return quotedOrNothing(*target) }}
	k.set = func(v value) *complaint {
		if v.kind != unstable.String || !isName(v.text, longest) {
			return k.must(v, "")
		}
		*target = v.text
		return nil
	}
	return k
}

// isName reports whether a text may be the name of something.
func isName(text string, longest int) bool {
	return text != "" && len(text) <= longest && !strings.ContainsFunc(text, isControl)
}

// isControl reports whether a character has no place in a name.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// quotedOrNothing is a text as TOML; an empty one has not been written.
func quotedOrNothing(text string) string {
	if text == "" {
		return ""
	}
	return quoted(text)
}

// quotedOrNone is a text as TOML; an empty one is "none".
func quotedOrNone(text string) string { return quoted(cmp.Or(text, "none")) }

// roleOrNone is the name of a role or "none", which no role can be called.
func roleOrNone(target *string) kind {
	inner := name(target, `the name of a role, at most 63 bytes`, 63)
	return orNone(target, inner)
}

// commandOrNone is a command line or "none".
func commandOrNone(target *string) kind {
	return orNone(target, name(target, "a command line of at most 1000 bytes", 1000))
}

// pathOrNone is the path of a file, relative to the directory of the configuration, or
// "none".
func pathOrNone(target *string) kind {
	k := kind{admits: "the path of a file"}
	k.set = func(v value) *complaint {
		if v.kind != unstable.String || v.text == "" || strings.ContainsFunc(v.text, isControl) {
			return k.must(v, "")
		}
		*target = filepath.Clean(v.text)
		if !filepath.IsAbs(v.text) {
			*target = filepath.Join(v.dir, v.text)
		}
		return nil
	}
	return orNone(target, k)
}

// orNone adds "none" to a kind of text. It is kept as the empty text.
func orNone(target *string, inner kind) kind {
	k := kind{admits: `"none" or ` + inner.admits, get: func() string { return quotedOrNone(*target) }}
	k.set = func(v value) *complaint {
		if v.kind == unstable.String && v.text == "none" {
			*target = ""
			return nil
		}
		c := inner.set(v)
		if c != nil {
			c.message = v.shown() + " is not " + k.admits
		}
		return c
	}
	return k
}

// boolean is true or false.
func boolean(target *bool) kind {
	k := kind{admits: "true or false"}
	k.get = func() string {
		if *target {
			return "true"
		}
		return "false"
	}
	k.set = func(v value) *complaint {
		word, isText := v.text, v.kind == unstable.String
		switch {
		case v.kind != unstable.Bool && !isText && v.kind != unstable.Integer:
			return k.must(v, "")
		case v.kind == unstable.Bool, isText && v.env != "" && (word == "true" || word == "false"):
			*target = word == "true"
			return nil
		}
		fix := ""
		switch strings.ToLower(word) {
		case "true", "on", "yes", "1":
			fix = "true"
		case "false", "off", "no", "0":
			fix = "false"
		}
		return k.must(v, fix)
	}
	return k
}

// share is a percentage.
func share(target *Share) kind { return shareKind(target, `a share from "0%" to "100%"`, false) }

// shareOrAuto is a percentage or "auto".
func shareOrAuto(target *Share) kind {
	return shareKind(target, `"auto" or a share from "0%" to "100%"`, true)
}

func shareKind(target *Share, admits string, auto bool) kind {
	k := kind{admits: admits, get: func() string { return quoted(target.String()) }}
	k.set = func(v value) *complaint {
		if auto && v.kind == unstable.String && v.text == "auto" {
			*target = AutoShare
			return nil
		}
		s, err := ParseShare(v.text)
		if err == nil && v.kind == unstable.String {
			*target = s
			return nil
		}
		return k.must(v, shareFix(v))
	}
	return k
}

// shareFix turns a number into the share that was meant, if that is clear.
func shareFix(v value) string {
	if v.kind != unstable.String && v.kind != unstable.Integer && v.kind != unstable.Float {
		return ""
	}
	text := strings.ReplaceAll(strings.TrimSpace(strings.TrimSuffix(v.text, "%")), "_", "")
	if s, err := ParseShare(text + "%"); err == nil && (v.kind != unstable.Float || s > 100) {
		return quoted(s.String())
	}
	return ""
}

// quoted is a text as a string of TOML.
func quoted(text string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case isControl(r):
			b.WriteString(`\u00`)
			b.WriteByte(digits[r>>4])
			b.WriteByte(digits[r&15])
		default:
			b.WriteRune(r) // what is not UTF-8 becomes U+FFFD
		}
	}
	b.WriteByte('"')
	return b.String()
}
