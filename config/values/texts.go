package values

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/pgweir/pgweir/config/document"
)

// Name is a text that is not empty and has no control characters.
func Name(target *string, admits string, longest int) Type {
	k := Type{Admits: cmp.Or(admits, "a name"), Get: func() string { return QuoteIfAny(*target) }}
	k.Set = func(v Value) *Complaint {
		if v.Kind != document.Text || !IsName(v.Text, longest) {
			return k.Must(v, "")
		}
		*target = v.Text
		return nil
	}
	return k
}

// IsName reports whether a text may be the name of something.
func IsName(text string, longest int) bool {
	return text != "" && len(text) <= longest && !strings.ContainsFunc(text, IsControl)
}

// IsControl reports whether a character has no place in a name.
func IsControl(r rune) bool { return r < ' ' || r == 0x7f }

// RoleOrNone is the name of a role or "none", which no role can be called.
func RoleOrNone(target *string) Type {
	inner := Name(target, `the name of a role, at most 63 bytes`, 63)
	return orNone(target, inner)
}

// CommandOrNone is a command line or "none".
func CommandOrNone(target *string) Type {
	return orNone(target, Name(target, "a command line of at most 1000 bytes", 1000))
}

// QueryOrNone is an SQL statement or "none".
func QueryOrNone(target *string) Type {
	return orNone(target, Name(target, "an SQL statement of at most 4000 bytes", 4000))
}

// PathOrNone is the path of a file, relative to the directory of the configuration, or
// "none".
func PathOrNone(target *string) Type {
	k := Type{Admits: "the path of a file"}
	k.Set = func(v Value) *Complaint {
		if v.Kind != document.Text || v.Text == "" || strings.ContainsFunc(v.Text, IsControl) {
			return k.Must(v, "")
		}
		*target = filepath.Clean(v.Text)
		if !filepath.IsAbs(v.Text) {
			*target = filepath.Join(v.Dir, v.Text)
		}
		return nil
	}
	return orNone(target, k)
}

// orNone adds "none" to a kind of text. It is kept as the empty text.
func orNone(target *string, inner Type) Type {
	k := Type{Admits: `"none" or ` + inner.Admits, Get: func() string { return quotedOrNone(*target) }}
	k.Set = func(v Value) *Complaint {
		if v.Kind == document.Text && v.Text == "none" {
			*target = ""
			return nil
		}
		c := inner.Set(v)
		if c != nil {
			c.Message = v.Shown() + " is not " + k.Admits
		}
		return c
	}
	return k
}

// Boolean is true or false.
func Boolean(target *bool) Type {
	k := Type{Admits: "true or false"}
	k.Get = func() string {
		if *target {
			return "true"
		}
		return "false"
	}
	k.Set = func(v Value) *Complaint {
		word, isText := v.Text, v.Kind == document.Text
		switch {
		case v.Kind != document.Bool && !isText && v.Kind != document.Integer:
			return k.Must(v, "")
		case v.Kind == document.Bool, isText && v.Env != "" && (word == "true" || word == "false"):
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
		return k.Must(v, fix)
	}
	return k
}
