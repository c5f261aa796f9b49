package values

import (
	"slices"
	"strconv"

	"github.com/pgweir/pgweir/config/document"
)

// List is an array whose elements are read one by one; add says what is wrong with one. An
// empty list is refused with why it is wrong, or accepted if empty is "".
func List(admits, example, empty string, add func(v Value) *Complaint, done func(), get func() []string) Type {
	k := Type{Admits: admits, Get: func() string { return QuoteList(get()) }}
	k.Set = func(v Value) *Complaint {
		items := v.Items
		switch {
		case v.Kind == document.Text && v.Env != "":
			items = []document.Node{v.Node}
		case v.Kind == document.Text && add(v) == nil:
			return k.Must(v, "["+Quote(v.Text)+"]")
		case v.Kind != document.List:
			return k.Must(v, example)
		case len(items) == 0 && empty != "":
			return &Complaint{Message: "the list is empty: " + empty}
		}
		var problems *Complaint
		for i, item := range items {
			if c := add(Value{Node: item, Env: v.Env, Dir: v.Dir}); c != nil {
				c.Element = i + 1
				problems = problems.And(c)
			}
		}
		if problems == nil {
			done()
		}
		return problems
	}
	return k
}

// Names is a list of names without repetition, possibly empty.
func Names(target *[]string, admits string) Type {
	return textList(target, admits, "[]", "", 63)
}

// Globs is a list of patterns; an empty one is refused, because nobody would match.
func Globs(target *[]string, admits string) Type {
	k := textList(target, admits, `["web-*"]`, "no client would match", 255)
	k.Get = func() string {
		if len(*target) == 0 {
			return ""
		}
		return QuoteList(*target)
	}
	return k
}

// textList is a list of texts without repetition.
func textList(target *[]string, admits, example, empty string, longest int) Type {
	var found []string
	add := func(v Value) *Complaint {
		switch {
		case v.Kind != document.Text || !IsName(v.Text, longest):
			return &Complaint{Message: v.Shown() + " is not a name of 1 to " + strconv.Itoa(longest) + " bytes without control characters"}
		case slices.Contains(found, v.Text):
			return &Complaint{Message: v.Shown() + " is in the list twice"}
		}
		found = append(found, v.Text)
		return nil
	}
	k := List(admits, example, empty, add, func() { *target = found }, func() []string { return *target })
	set := k.Set
	k.Set = func(v Value) *Complaint {
		found = []string{}
		return set(v)
	}
	return k
}
