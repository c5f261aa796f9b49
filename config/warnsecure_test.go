package config

import (
	"strings"
	"testing"
)

func TestWarningsOfStrangers(t *testing.T) {
	for url, want := range map[string]string{
		"db/x?sslmode=disable": "all in clear",
		"db/x":                 "with sslmode=prefer all may go in clear",
		"db/x?sslmode=allow":   "with sslmode=allow all may go in clear",
		"db/x?sslmode=require": "takes whoever answers at db:5432",
		"db/x?sslmode=require&sslrootcert=ca.crt":         "any certificate of that authority",
		"db/x?sslmode=verify-ca":                          "any certificate of that authority",
		"db/x?sslmode=verify-full":                        "",
		"db/x?sslrootcert=system":                         "",
		"127.0.0.1,localhost,[::1]/x?sslmode=disable":     "",
		"127.0.0.1,10.0.0.9/x?sslmode=disable":            "10.0.0.9:5432",
		"/x?host=/var/run/postgresql&sslmode=disable":     "",
		"/x?host=/var/run/postgresql,db1&sslmode=disable": "db1:5432",
	} {
		c, problems := Parse("x.toml", []byte("[upstream.main]\nurl = \"postgres://pgweir@"+url+"\"\n[database.\"*\"]\n"))
		if problems != nil {
			t.Fatal(url, problems)
		}
		got := strings.Join(c.Warnings(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
