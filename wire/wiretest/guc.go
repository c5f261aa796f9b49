package wiretest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// guc is a configuration parameter that the fake knows.
type guc struct {
	name   string // as Postgres spells it
	typed  string // as the statement spelt it
	boot   string // default
	report bool   // GUC_REPORT: changes are told with ParameterStatus
	list   bool   // SET takes several values
	quoted bool   // elements of the list are identifiers
	// check returns the canonical spelling of a value; was is the value in force.
	check func(g *guc, value, was string) (string, *wire.Error)
}

// findGUC returns the parameter with the given lower-case name, or nil.
func findGUC(name string) *guc {
	switch name {
	case "application_name":
		return &guc{name: "application_name", report: true, check: checkAppName}
	case "client_encoding":
		return &guc{name: "client_encoding", boot: "UTF8", report: true, check: checkEncoding}
	case "datestyle":
		return &guc{name: "DateStyle", boot: "ISO, MDY", report: true, list: true, check: checkDateStyle}
	case "intervalstyle":
		return &guc{
			name: "IntervalStyle", boot: "postgres", report: true,
			check: checkEnum("postgres", "postgres_verbose", "sql_standard", "iso_8601"),
		}
	case "timezone":
		return &guc{name: "TimeZone", boot: "UTC", report: true, check: checkTimeZone}
	case "standard_conforming_strings":
		return &guc{name: "standard_conforming_strings", boot: "on", report: true, check: checkBool}
	case "search_path":
		return &guc{name: "search_path", boot: `"$user", public`, list: true, quoted: true, check: checkAny}
	case "work_mem":
		return &guc{name: "work_mem", boot: "4MB", check: checkMemory}
	case "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout":
		return &guc{name: name, boot: "0", check: checkTime}
	case "extra_float_digits":
		return &guc{name: name, boot: "1", check: checkFloatDigits}
	case "enable_seqscan", "row_security":
		return &guc{name: name, boot: "on", check: checkBool}
	case "bytea_output":
		return &guc{name: name, boot: "hex", check: checkEnum("escape", "hex")}
	}
	return nil
}

// tracked are the lower-case names of the reported parameters, in the order in
// which the fake, as Postgres, reports them.
func tracked() []string {
	return []string{
		"application_name", "client_encoding", "datestyle", "intervalstyle",
		"standard_conforming_strings", "timezone",
	}
}

// others are the known parameters that are not reported.
func others() []string {
	return []string{
		"bytea_output", "enable_seqscan", "extra_float_digits",
		"idle_in_transaction_session_timeout", "lock_timeout", "row_security", "search_path",
		"statement_timeout", "work_mem",
	}
}

func invalidValue(name, value string) *wire.Error {
	return newError("22023", "invalid value for parameter \"%s\": \"%s\"", name, value)
}

func checkAny(_ *guc, value, _ string) (string, *wire.Error) { return value, nil }

func checkAppName(_ *guc, value, _ string) (string, *wire.Error) {
	b := []byte(value)
	for i, c := range b {
		if c < 32 || c > 126 {
			b[i] = '?'
		}
	}
	return string(b[:min(len(b), 63)]), nil
}

func checkEncoding(g *guc, value, _ string) (string, *wire.Error) {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, value)
	switch clean {
	case "utf8", "unicode":
		return "UTF8", nil
	case "latin1", "iso88591":
		return "LATIN1", nil
	case "sqlascii":
		return "SQL_ASCII", nil
	case "win1252", "windows1252":
		return "WIN1252", nil
	}
	return "", invalidValue(g.name, value)
}

// checkDateStyle merges key words into the style and order in force.
func checkDateStyle(g *guc, value, was string) (string, *wire.Error) {
	style, order, _ := strings.Cut(was, ", ")
	orderGiven := false
	for part := range strings.SplitSeq(value, ",") {
		word := strings.ToUpper(strings.TrimSpace(part))
		switch {
		case word == "ISO" || word == "SQL":
			style = word
		case strings.HasPrefix(word, "POSTGRES"):
			style = "Postgres"
		case strings.HasPrefix(word, "GERMAN"):
			style = "German"
			if !orderGiven {
				order = "DMY"
			}
		case word == "YMD":
			order, orderGiven = "YMD", true
		case word == "DMY" || strings.HasPrefix(word, "EURO"):
			order, orderGiven = "DMY", true
		case word == "MDY" || word == "US" || strings.HasPrefix(word, "NONEURO"):
			order, orderGiven = "MDY", true
		case word == "DEFAULT":
			style, order = "ISO", "MDY"
		default:
			e := invalidValue(g.name, value)
			e.Detail = fmt.Sprintf("Unrecognized key word: \"%s\".", strings.ToLower(word))
			return "", e
		}
	}
	return style + ", " + order, nil
}

func checkEnum(allowed ...string) func(*guc, string, string) (string, *wire.Error) {
	return func(g *guc, value, _ string) (string, *wire.Error) {
		for _, a := range allowed {
			if strings.EqualFold(a, value) {
				return a, nil
			}
		}
		e := invalidValue(g.typed, value)
		e.Hint = "Available values: " + strings.Join(allowed, ", ") + "."
		return "", e
	}
}

func checkTimeZone(g *guc, value, _ string) (string, *wire.Error) {
	for _, z := range []string{"UTC", "GMT", "Etc/UTC", "Europe/Berlin", "Europe/Paris", "America/New_York", "Asia/Tokyo"} {
		if strings.EqualFold(z, value) {
			return z, nil
		}
	}
	return "", invalidValue(g.name, value)
}

func checkBool(g *guc, value, _ string) (string, *wire.Error) {
	switch strings.ToLower(value) {
	case "on", "true", "t", "yes", "y", "1", "tr", "tru", "ye":
		return "on", nil
	case "off", "false", "f", "no", "n", "0", "of", "fa", "fal", "fals":
		return "off", nil
	}
	return "", newError("22023", "parameter \"%s\" requires a Boolean value", g.typed)
}

func checkFloatDigits(g *guc, value, _ string) (string, *wire.Error) {
	n, err := strconv.Atoi(value)
	if err != nil {
		return "", invalidValue(g.typed, value)
	}
	if n < -15 || n > 3 {
		return "", newError("22023", "%d is outside the valid range for parameter \"%s\" (-15 .. 3)", n, g.typed)
	}
	return strconv.Itoa(n), nil
}

func checkMemory(g *guc, value, _ string) (string, *wire.Error) {
	units := []unit{{"TB", 1 << 30}, {"GB", 1 << 20}, {"MB", 1 << 10}, {"kB", 1}}
	n, ok := parseUnits(value, units)
	if !ok {
		e := invalidValue(g.typed, value)
		e.Hint = `Valid units for this parameter are "B", "kB", "MB", "GB", and "TB".`
		return "", e
	}
	if n < 64 {
		return "", newError("22023", "%d kB is outside the valid range for parameter \"%s\" (64 .. 2147483647)", n, g.typed)
	}
	return formatUnits(n, units), nil
}

func checkTime(g *guc, value, _ string) (string, *wire.Error) {
	units := []unit{{"d", 86400000}, {"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}}
	n, ok := parseUnits(value, units)
	if !ok {
		e := invalidValue(g.typed, value)
		e.Hint = `Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".`
		return "", e
	}
	if n == 0 {
		return "0", nil
	}
	return formatUnits(n, units), nil
}

// unit is a unit of a parameter, in multiples of the smallest.
type unit struct {
	name string
	size int64
}

func parseUnits(value string, units []unit) (int64, bool) {
	digits := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 32)
	if err != nil || n < 0 {
		return 0, false
	}
	name := value[len(digits):]
	if name == "" {
		return n, true
	}
	for _, u := range units {
		if u.name == name {
			return n * u.size, true
		}
	}
	return 0, false
}

// formatUnits writes n in the largest unit that divides it.
func formatUnits(n int64, units []unit) string {
	for _, u := range units {
		if n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
