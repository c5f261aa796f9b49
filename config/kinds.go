package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// value is what a key is given: a node whose ${NAME} has been replaced.
type value struct {
	node
	env string // the variable that the text comes from, or ""
	dir string // relative paths start here
}

// shown is the value for a message. What comes from the environment is not repeated.
func (v value) shown() string {
	switch {
	case v.env != "":
		return "the value of ${" + v.env + "}"
	case v.kind == unstable.Array:
		return "the list"
	case v.kind == unstable.InlineTable:
		return "the table"
	}
	text := v.text
	if len(text) > 40 {
		text = strings.ToValidUTF8(text[:40], "") + "..."
	}
	if v.kind == unstable.String {
		return strconv.Quote(text)
	}
	return text
}

// complaint is what a kind has against a value.
type complaint struct {
	message string
	fix     string // the right-hand side to write instead, or ""
	advice  string // or else a sentence
	at      span   // within the text of the value; zero: all of it
	element int    // of a list or table, counted from 1; 0: the value itself
	onName  bool   // of a table: it is about the element's name

	also *complaint // the next one about the same value
}

// and puts more behind c. Either may be nil.
func (c *complaint) and(more *complaint) *complaint {
	if c == nil {
		return more
	}
	c.also = c.also.and(more)
	return c
}

// kind knows one type of value and where to put it.
type kind struct {
	admits string // what may be written, for documentation and messages
	set    func(v value) *complaint
	get    func() string // the right-hand side that the value was or could be written as; "" if only leaving the key out says it
	reveal func() string // get with the secrets that get hides; nil where there are none
}

// must says what would have been right.
func (k kind) must(v value, fix string) *complaint {
	return &complaint{message: v.shown() + " is not " + k.admits, fix: fix}
}

// integer is a whole number.
func integer[T ~int](target *T, low, high int) kind {
	k := kind{admits: fmt.Sprintf("a number from %d to %d", low, high)}
	k.get = func() string { return strconv.Itoa(int(*target)) }
	k.set = func(v value) *complaint {
		n, problem := readInteger(k, v, low, high)
		if problem == nil {
			*target = T(n)
		}
		return problem
	}
	return k
}

// countOrAuto is a whole number or "auto".
func countOrAuto(target *Count, low, high int) kind {
	k := kind{admits: fmt.Sprintf(`"auto" or a number from %d to %d`, low, high)}
	k.get = func() string {
		if target.IsAuto() {
			return `"auto"`
		}
		return target.String()
	}
	k.set = func(v value) *complaint {
		if v.kind == unstable.String && v.text == "auto" {
			*target = Auto
			return nil
		}
		n, problem := readInteger(k, v, low, high)
		if problem == nil {
			*target = Count(n)
		} else if v.kind == unstable.Integer && strings.Trim(v.text, "+-0") == "" {
			problem.fix = `"auto"`
		}
		return problem
	}
	return k
}

// readInteger reads an integer, or the digits that a variable holds.
func readInteger(k kind, v value, low, high int) (int, *complaint) {
	n, err := strconv.Atoi(strings.ReplaceAll(v.text, "_", ""))
	isText := v.kind == unstable.String && v.env == ""
	switch {
	case v.kind != unstable.Integer && v.kind != unstable.String, err != nil:
		return 0, k.must(v, "")
	case isText:
		return 0, k.must(v, strconv.Itoa(min(max(n, low), high)))
	case n < low:
		return 0, k.must(v, strconv.Itoa(low))
	case n > high:
		return 0, k.must(v, strconv.Itoa(high))
	}
	return n, nil
}

// period is a duration that has to be given as one.
func period(target *Duration, low, high time.Duration) kind {
	return durationKind(target, low, high, false)
}

// periodOrNone is a duration or "none".
func periodOrNone(target *Duration, low, high time.Duration) kind {
	return durationKind(target, low, high, true)
}

func durationKind(target *Duration, low, high time.Duration, none bool) kind {
	k := kind{admits: fmt.Sprintf(`a duration from "%v" to "%v"`, Duration(low), Duration(high))}
	if none {
		k.admits = `"none" or ` + k.admits
	}
	k.get = func() string { return quoted(target.String()) }
	k.set = func(v value) *complaint {
		if v.kind == unstable.Integer {
			return &complaint{message: v.shown() + " has no unit", fix: secondsFix(v.text, low, high, none), advice: "It has to be " + k.admits + "."}
		}
		if v.kind != unstable.String {
			return k.must(v, "")
		}
		d, err := ParseDuration(v.text)
		switch {
		case err != nil && isNumber(v.text):
			return &complaint{message: v.shown() + " has no unit", fix: secondsFix(v.text, low, high, none), advice: "It has to be " + k.admits + "."}
		case err != nil:
			return k.must(v, "")
		case d.IsNone() && !none:
			return k.must(v, "")
		case d == 0 && low > 0 && none:
			return k.must(v, `"none"`)
		case !d.IsNone() && time.Duration(d) < low:
			return k.must(v, strconv.Quote(Duration(low).String()))
		case time.Duration(d) > high:
			return k.must(v, strconv.Quote(Duration(high).String()))
		}
		*target = d
		return nil
	}
	return k
}

// isNumber reports whether the text has digits only.
func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// secondsFix turns a bare number into what PgBouncer would have meant by it, if that is
// possible here.
func secondsFix(digits string, low, high time.Duration, none bool) string {
	if strings.Trim(digits, "0") == "" && none {
		return `"none"`
	}
	d, err := ParseDuration(digits + "s")
	if err != nil || time.Duration(d) < low || time.Duration(d) > high {
		return ""
	}
	return `"` + digits + `s"`
}

// size is a number of bytes with a unit.
func size(target *Size, low, high Size) kind {
	k := kind{admits: fmt.Sprintf(`a size from "%v" to "%v"`, low, high)}
	k.get = func() string { return quoted(target.String()) }
	k.set = func(v value) *complaint {
		if v.kind == unstable.Integer {
			return k.must(v, bytesFix(v.text, low, high))
		}
		s, err := ParseSize(v.text)
		switch {
		case v.kind != unstable.String:
			return k.must(v, "")
		case err != nil:
			return k.must(v, binaryUnit(v.text, low, high))
		case s < low:
			return k.must(v, strconv.Quote(low.String()))
		case s > high:
			return k.must(v, strconv.Quote(high.String()))
		}
		*target = s
		return nil
	}
	return k
}

// bytesFix turns a bare number into a size, quoted.
func bytesFix(digits string, low, high Size) string {
	n, err := strconv.ParseUint(strings.ReplaceAll(digits, "_", ""), 10, 40)
	if err != nil || Size(n) < low || Size(n) > high {
		return ""
	}
	return strconv.Quote(Size(n).String())
}

// binaryUnit turns "64MB" into "64MiB", quoted; anything else into nothing.
func binaryUnit(text string, low, high Size) string {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	unit := strings.ToUpper(strings.TrimSpace(text[len(digits):]))
	if digits == "" || len(unit) == 0 || !strings.Contains("KMG", unit[:1]) || strings.Trim(unit[1:], "IB") != "" {
		return ""
	}
	s, err := ParseSize(digits + unit[:1] + "iB")
	if err != nil || s < low || s > high {
		return ""
	}
	return strconv.Quote(s.String())
}

// choice is one word of several. Those of later are known and refused as such.
func choice[T ~string](target *T, words []T, later ...T) kind {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = quoted(string(w))
	}
	k := kind{admits: strings.Join(list, ", ")}
	if n := len(list); n > 1 {
		k.admits = strings.Join(list[:n-1], ", ") + " or " + list[n-1]
	}
	k.get = func() string { return quoted(string(*target)) }
	k.set = func(v value) *complaint {
		word := T(v.text)
		switch {
		case v.kind != unstable.String:
			return k.must(v, "")
		case slices.Contains(words, word):
			*target = word
			return nil
		case slices.Contains(later, word):
			return &complaint{message: v.shown() + " is " + notYet, advice: "This version knows " + k.admits + "."}
		}
		fix := Nearest(strings.ToLower(v.text), []string(plain(words)))
		if fix != "" {
			fix = strconv.Quote(fix)
		}
		return k.must(v, fix)
	}
	return k
}

// plain gives up the type of words.
func plain[T ~string](words []T) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}

// notYet is said of what the design knows and this version does not.
const notYet = "not yet supported in this version"
