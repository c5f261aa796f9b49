package wire

import "strings"

// SplitOptions reads the value of the start-up parameter "options", the command
// line of a backend, into the settings that it makes, in order; of equal names
// the last counts.
//
// Words are separated by white space, which a backslash makes an ordinary
// character, as it does with itself. Known are -c name=value and --name=value,
// where a '-' in a name stands for '_', and the letters that are settings which
// any session may make: -e, -f, -S, -s, -t. For the rest the error is an *Error
// that can be sent as an answer.
func SplitOptions(s string) ([]Param, error) {
	args := splitWords(s)
	var params []Param
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" && i == len(args)-1 {
			break // the end of switches, and rightly nothing after it
		}
		if len(word) < 2 || word[0] != '-' || word == "--" {
			return nil, badArgument(word)
		}
		if name, ok := strings.CutPrefix(word, "--"); ok {
			p, err := longOption("--", name)
			if err != nil {
				return nil, err
			}
			params = append(params, p)
			continue
		}
		made, took, err := shortOptions(word, args[i+1:])
		if err != nil {
			return nil, err
		}
		params = append(params, made...)
		i += took
	}
	return params, nil
}

// splitWords cuts at white space that no backslash precedes.
func splitWords(s string) []string {
	var words []string
	for i := 0; i < len(s); {
		for i < len(s) && isSpace(s[i]) {
			i++
		}
		if i == len(s) {
			break
		}
		var word []byte
		for escaped := false; i < len(s) && (escaped || !isSpace(s[i])); i++ {
			if s[i] == '\\' && !escaped {
				escaped = true
				continue
			}
			escaped = false
			word = append(word, s[i])
		}
		words = append(words, string(word))
	}
	return words
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// shortOptions reads a word of one-letter switches; the value of a letter that
// wants one is the rest of the word or, if there is none, the next word.
func shortOptions(word string, next []string) (made []Param, took int, err error) {
	for i := 1; i < len(word); i++ {
		switch letter := word[i]; letter {
		case 'e':
			made = append(made, Param{"datestyle", "euro"})
		case 's':
			made = append(made, Param{"log_statement_stats", "true"})
		case 'c', 'f', 'S', 't':
			value := word[i+1:]
			if value == "" {
				if len(next) == 0 {
					return nil, 0, badArgument(word)
				}
				value, took = next[0], 1
			}
			p, err := letterValue(letter, value)
			return append(made, p), took, err
		default:
			return nil, 0, badArgument(word)
		}
	}
	return made, 0, nil
}

// letterValue is the setting that a letter with a value makes.
func letterValue(letter byte, value string) (Param, error) {
	switch letter {
	case 'c':
		return longOption("-c ", value)
	case 'S':
		return Param{"work_mem", value}, nil
	case 'f':
		if plan, ok := planMethod(value); ok {
			return Param{"enable_" + plan, "false"}, nil
		}
	case 't':
		// Postgres looks at no more than these letters.
		switch {
		case strings.HasPrefix(value, "pa"):
			return Param{"log_parser_stats", "true"}, nil
		case strings.HasPrefix(value, "pl"):
			return Param{"log_planner_stats", "true"}, nil
		case strings.HasPrefix(value, "e"):
			return Param{"log_executor_stats", "true"}, nil
		}
	}
	return Param{}, badArgument("-" + string(letter) + " " + value)
}

// planMethod names what -f forbids the planner.
func planMethod(value string) (string, bool) {
	if value == "" {
		return "", false
	}
	switch value[0] {
	case 's':
		return "seqscan", true
	case 'i':
		return "indexscan", true
	case 'o':
		return "indexonlyscan", true
	case 'b':
		return "bitmapscan", true
	case 't':
		return "tidscan", true
	case 'n':
		return "nestloop", true
	case 'm':
		return "mergejoin", true
	case 'h':
		return "hashjoin", true
	}
	return "", false
}

// longOption reads name=value; prefix is how it was introduced, for the error.
func longOption(prefix, s string) (Param, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return Param{}, &Error{
			Severity: SeverityFatal, Code: CodeSyntaxError,
			Message: prefix + strings.ReplaceAll(name, "-", "_") + " requires a value",
		}
	}
	return Param{strings.ReplaceAll(name, "-", "_"), value}, nil
}

func badArgument(word string) *Error {
	return &Error{
		Severity: SeverityFatal, Code: CodeSyntaxError,
		Message: "invalid command-line argument for server process: " + word,
	}
}
