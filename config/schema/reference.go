package schema

import (
	"fmt"
	"strings"
)

// Reference is the reference of all keys in Markdown: a table for each kind of section.
// It ends with a newline.
func Reference() string {
	var b strings.Builder
	for _, s := range Kinds() {
		title := "`" + s.Header() + "`"
		if s.Kind == "" {
			title = "At the top"
		}
		fmt.Fprintf(&b, "**%s** %s\n\n| key | default | values | what it does |\n| --- | --- | --- | --- |\n", title, about(s.Kind))
		for _, f := range s.Fields {
			f.row(&b)
		}
		b.WriteString("\n")
	}
	b.WriteString("Keys marked with ↻ need a restart; a reload applies all others.\n")
	return b.String()
}

// about is what a kind of section is for.
func about(kind string) string {
	switch kind {
	case "":
		return "of the file, above the first section."
	case "log":
		return "is what is logged."
	case "tls":
		return "is the encryption between clients and pgweir."
	case "auth":
		return "is who may come in."
	case "console":
		return "is who may use the console, the database `pgweir`."
	case UpstreamKind:
		return "is one Postgres cluster. The name is yours."
	case DatabaseKind:
		return "is a name that clients may ask for; `\"*\"` is every other."
	case WorkloadKind:
		return "is how a group of clients is treated. The first that matches is taken, in the order of the file; " +
			"behind them stand the built-in ones, `tools` and `default`."
	case RoleKind:
		return "is what a role may ask for; `\"*\"` is every other."
	case RateKind:
		return "is how much one caller may ask for. Without any there is no rate. They come before the queue; `pgweir check` tells what each means."
	case RateMatchKind:
		return "is whose work the rate above it is for; also written `match = { tenant = [\"free-*\"] }`."
	default:
		return "is who belongs to the workload above it; also written `match = { role = [\"app\"] }`."
	}
}

// row is the line of a key in the table.
func (f Field) row(b *strings.Builder) {
	mark := ""
	if f.Restart {
		mark = " ↻"
	}
	value := code(f.Default)
	if f.Default == "" {
		value = ""
	}
	admits := f.Type.Admits
	if f.Unit != "" {
		admits += " (" + f.Unit + ")"
	}
	doc := cell(f.Doc)
	if f.Default == "" {
		doc += " Example: " + code(f.Example)
	}
	fmt.Fprintf(b, "| `%s`%s | %s | %s | %s |\n", f.Name, mark, value, cell(admits), doc)
}

// code is a value within a cell.
func code(text string) string { return "`" + strings.ReplaceAll(text, "|", `\|`) + "`" }

// cell makes a text fit for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
}
