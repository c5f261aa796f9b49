package matrix

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// lacking is what a driver has no means for; with PostgreSQL itself no more than with pgweir.
func lacking(driver string) []string {
	return map[string][]string{
		"psql":       {"prepared", "pipeline", "types"},
		"pgbench":    {"COPY", "large objects", "types", "several", "deadlock", "cancel", "notices", "settings", "resets", "57P01", "refusals", "probes"},
		"pq":         {"pipeline"},
		"sql":        {"pipeline", "resets"},
		"psycopg2":   {"prepared", "pipeline"},
		"sqlalchemy": {"prepared", "pipeline"},
		"pg":         {"pipeline"},
		"postgresjs": {"57P01"},
		"pdo":        {"pipeline", "notices"},
		"dbd":        {"pipeline"},
		"django":     {"prepared", "pipeline"},
	}[driver]
}

// expected is what a theme must come to with a driver.
func expected(driver, theme string) outcome {
	if slices.Contains(lacking(driver), theme) {
		return none
	}
	return holds
}

// title is what the table calls a driver.
func title(driver string) string {
	return map[string]string{
		"psql": "psql 15", "pgbench": "pgbench 15", "pgx": "pgx 5", "pq": "lib/pq 1, by connections", "sql": "database/sql with lib/pq, by its pool",
		"libpq": "libpq 15, in C", "psycopg2": "psycopg2 2.9", "psycopg": "psycopg 3.1", "sqlalchemy": "SQLAlchemy 1.4", "asyncpg": "asyncpg 0.27",
		"jdbc": "pgJDBC 42.5, HikariCP 2.7", "pg": "node-postgres 8.8", "postgresjs": "postgres.js 3.4", "pdo": "PHP 8.2, PDO", "ruby": "Ruby's pg 1.4",
		"dbd": "Perl's DBD::Pg 3.16", "django": "Django 3.2, persistent connections", "rails": "Rails 6.1, ActiveRecord",
	}[driver]
}

// table is the README's.
func table() string {
	var b strings.Builder
	b.WriteString("| driver |")
	for _, th := range themes() {
		b.WriteString(" " + th.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(themes())+1) + "\n")
	for _, driver := range names() {
		b.WriteString("| " + title(driver) + " |")
		for _, th := range themes() {
			b.WriteString(" " + string(expected(driver, th.name)) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The README's table is the one that TestMatrix compares with what the drivers do.
func TestTableOfTheREADME(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), table()) {
		t.Errorf("README.md does not have this table:\n%s", table())
	}
}
