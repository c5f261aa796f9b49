package main

import (
	"context"
	"runtime/debug"
	"strings"
)

func versionCommand() command {
	return command{
		name:    "version",
		summary: "print the version of this program and what it was built from",
		run:     version,
	}
}

// version prints one line.
func version(_ context.Context, e *env, args []string) int {
	if _, code, ok := e.parse(e.flags(), args, 0); !ok {
		return code
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		e.errorf("pgweir version: this program was built without module support\n")
		return exitError
	}
	e.printf("%s\n", describe(info))
	return exitOK
}

// versionText is the version alone, for metrics and the console.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// describe is "pgweir v1.2.3 (0123456789ab, 2026-11-30T12:00:00Z, modified) go1.26.0 linux/amd64",
// with as much between the parentheses as the build knows.
func describe(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "development version"
	}
	var origin []string
	if revision := settings["vcs.revision"]; revision != "" {
		origin = append(origin, revision[:min(12, len(revision))])
	}
	if at := settings["vcs.time"]; at != "" {
		origin = append(origin, at)
	}
	if settings["vcs.modified"] == "true" {
		origin = append(origin, "modified")
	}
	text := "pgweir " + version
	if len(origin) > 0 {
		text += " (" + strings.Join(origin, ", ") + ")"
	}
	text += " " + info.GoVersion
	if settings["GOOS"] != "" {
		text += " " + settings["GOOS"] + "/" + settings["GOARCH"]
	}
	return text
}
