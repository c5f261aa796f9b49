package values

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/config/document"
)

// Integer is a whole number.
func Integer[T ~int](target *T, low, high int) Type {
	k := Type{Admits: fmt.Sprintf("a number from %d to %d", low, high)}
	k.Get = func() string { return strconv.Itoa(int(*target)) }
	k.Set = func(v Value) *Complaint {
		n, problem := readInteger(k, v, low, high)
		if problem == nil {
			*target = T(n)
		}
		return problem
	}
	return k
}

// CountOrAuto is a whole number or "auto".
func CountOrAuto(target *Count, low, high int) Type {
	k := Type{Admits: fmt.Sprintf(`"auto" or a number from %d to %d`, low, high)}
	k.Get = func() string {
		if target.IsAuto() {
			return `"auto"`
		}
		return target.String()
	}
	k.Set = func(v Value) *Complaint {
		if v.Kind == document.Text && v.Text == "auto" {
			*target = Auto
			return nil
		}
		n, problem := readInteger(k, v, low, high)
		if problem == nil {
			*target = Count(n)
		} else if v.Kind == document.Integer && strings.Trim(v.Text, "+-0") == "" {
			problem.Fix = `"auto"`
		}
		return problem
	}
	return k
}

// IntegerOrNone is a whole number or "none", which is 0.
func IntegerOrNone(target *int, low, high int) Type {
	k := Type{Admits: fmt.Sprintf(`"none" or a number from %d to %d`, low, high)}
	k.Get = func() string {
		if *target == 0 {
			return `"none"`
		}
		return strconv.Itoa(*target)
	}
	k.Set = func(v Value) *Complaint {
		if v.Kind == document.Text && v.Text == "none" {
			*target = 0
			return nil
		}
		n, problem := readInteger(k, v, low, high)
		if problem == nil {
			*target = n
		} else if v.Kind == document.Integer && strings.Trim(v.Text, "+-0") == "" {
			problem.Fix = `"none"`
		}
		return problem
	}
	return k
}

// readInteger reads an integer, or the digits that a variable holds.
func readInteger(k Type, v Value, low, high int) (int, *Complaint) {
	n, err := strconv.Atoi(strings.ReplaceAll(v.Text, "_", ""))
	isText := v.Kind == document.Text && v.Env == ""
	switch {
	case v.Kind != document.Integer && v.Kind != document.Text, err != nil:
		return 0, k.Must(v, "")
	case isText:
		return 0, k.Must(v, strconv.Itoa(min(max(n, low), high)))
	case n < low:
		return 0, k.Must(v, strconv.Itoa(low))
	case n > high:
		return 0, k.Must(v, strconv.Itoa(high))
	}
	return n, nil
}
