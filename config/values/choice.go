package values

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
)

// NotYet is said of what the design knows and this version does not.
const NotYet = "not yet supported in this version"

// Choice is one word of several. Those of later are known and refused as such.
func Choice[T ~string](target *T, words []T, later ...T) Type {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = Quote(string(w))
	}
	k := Type{Admits: strings.Join(list, ", ")}
	if n := len(list); n > 1 {
		k.Admits = strings.Join(list[:n-1], ", ") + " or " + list[n-1]
	}
	k.Get = func() string { return Quote(string(*target)) }
	k.Set = func(v Value) *Complaint {
		word := T(v.Text)
		switch {
		case v.Kind != document.Text:
			return k.Must(v, "")
		case slices.Contains(words, word):
			*target = word
			return nil
		case slices.Contains(later, word):
			return &Complaint{Message: v.Shown() + " is " + NotYet, Advice: "This version knows " + k.Admits + "."}
		}
		fix := string(Nearest(strings.ToLower(v.Text), words))
		if fix != "" {
			fix = strconv.Quote(fix)
		}
		return k.Must(v, fix)
	}
	return k
}

// enumerated is a type of another package whose values have names.
type enumerated interface {
	comparable
	String() string
}

// Enum is one of several values by its name.
func Enum[T enumerated](target *T, all []T) Type {
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = v.String()
	}
	word := ""
	k := Choice(&word, words)
	read := k.Set
	k.Get = func() string { return Quote((*target).String()) }
	k.Set = func(v Value) *Complaint {
		problem := read(v)
		if problem == nil {
			*target = all[slices.Index(words, word)]
		}
		return problem
	}
	return k
}
