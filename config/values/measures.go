package values

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/config/document"
)

// Period is a duration that has to be given as one.
func Period(target *Duration, low, high time.Duration) Type {
	return durationType(target, low, high, false)
}

// PeriodOrNone is a duration or "none".
func PeriodOrNone(target *Duration, low, high time.Duration) Type {
	return durationType(target, low, high, true)
}

func durationType(target *Duration, low, high time.Duration, none bool) Type {
	k := Type{Admits: fmt.Sprintf(`a duration from "%v" to "%v"`, Duration(low), Duration(high))}
	if none {
		k.Admits = `"none" or ` + k.Admits
	}
	k.Get = func() string { return Quote(target.String()) }
	k.Set = func(v Value) *Complaint {
		if v.Kind == document.Integer {
			return &Complaint{Message: v.Shown() + " has no unit", Fix: secondsFix(v.Text, low, high, none), Advice: "It has to be " + k.Admits + "."}
		}
		if v.Kind != document.Text {
			return k.Must(v, "")
		}
		d, err := ParseDuration(v.Text)
		switch {
		case err != nil && IsNumber(v.Text):
			return &Complaint{Message: v.Shown() + " has no unit", Fix: secondsFix(v.Text, low, high, none), Advice: "It has to be " + k.Admits + "."}
		case err != nil:
			return k.Must(v, "")
		case d.IsNone() && !none:
			return k.Must(v, "")
		case d == 0 && low > 0 && none:
			return k.Must(v, `"none"`)
		case !d.IsNone() && time.Duration(d) < low:
			return k.Must(v, strconv.Quote(Duration(low).String()))
		case time.Duration(d) > high:
			return k.Must(v, strconv.Quote(Duration(high).String()))
		}
		*target = d
		return nil
	}
	return k
}

// IsNumber reports whether the text has digits only.
func IsNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

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

// Bytes is a number of bytes with a unit.
func Bytes(target *Size, low, high Size) Type {
	k := Type{Admits: fmt.Sprintf(`a size from "%v" to "%v"`, low, high)}
	k.Get = func() string { return Quote(target.String()) }
	k.Set = func(v Value) *Complaint {
		if v.Kind == document.Integer {
			return k.Must(v, bytesFix(v.Text, low, high))
		}
		s, err := ParseSize(v.Text)
		switch {
		case v.Kind != document.Text:
			return k.Must(v, "")
		case err != nil:
			return k.Must(v, binaryUnit(v.Text, low, high))
		case s < low:
			return k.Must(v, strconv.Quote(low.String()))
		case s > high:
			return k.Must(v, strconv.Quote(high.String()))
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

// Percent is a percentage.
func Percent(target *Share) Type { return shareType(target, `a share from "0%" to "100%"`, false) }

// PercentOrAuto is a percentage or "auto".
func PercentOrAuto(target *Share) Type {
	return shareType(target, `"auto" or a share from "0%" to "100%"`, true)
}

func shareType(target *Share, admits string, auto bool) Type {
	k := Type{Admits: admits, Get: func() string { return Quote(target.String()) }}
	k.Set = func(v Value) *Complaint {
		if auto && v.Kind == document.Text && v.Text == "auto" {
			*target = AutoShare
			return nil
		}
		s, err := ParseShare(v.Text)
		if err == nil && v.Kind == document.Text {
			*target = s
			return nil
		}
		return k.Must(v, shareFix(v))
	}
	return k
}

// shareFix turns a number into the share that was meant, if that is clear.
func shareFix(v Value) string {
	if v.Kind != document.Text && v.Kind != document.Integer && v.Kind != document.Float {
		return ""
	}
	text := strings.ReplaceAll(strings.TrimSpace(strings.TrimSuffix(v.Text, "%")), "_", "")
	if s, err := ParseShare(text + "%"); err == nil && (v.Kind != document.Float || s > 100) {
		return Quote(s.String())
	}
	return ""
}
