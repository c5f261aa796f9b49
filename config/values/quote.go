package values

import (
	"cmp"
	"strings"
)

// Quote is a text as a string of TOML.
func Quote(text string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case IsControl(r):
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

// QuoteList is a list of texts as TOML.
func QuoteList(texts []string) string {
	quotes := make([]string, len(texts))
	for i, text := range texts {
		quotes[i] = Quote(text)
	}
	return "[" + strings.Join(quotes, ", ") + "]"
}

// QuoteIfAny is a text as TOML; an empty one has not been written.
func QuoteIfAny(text string) string {
	if text == "" {
		return ""
	}
	return Quote(text)
}

// quotedOrNone is a text as TOML; an empty one is "none".
func quotedOrNone(text string) string { return Quote(cmp.Or(text, "none")) }

// OrList joins words to a choice.
func OrList(words []string) string {
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " or " + words[n]
}
