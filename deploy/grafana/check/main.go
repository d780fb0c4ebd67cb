// Asks statements through clickhouse-go, the library of Grafana's data source for ClickHouse.
//
// Usage: firstflight-grafana-check HOST:PORT DATABASE USER < statements
//
// The password is in FIRSTFLIGHT_PASSWORD. Each line of standard input is a JSON object with name and sql; each line of
// standard output has name, columns (name, type) and rows, or name and error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const (
	longestLine = 1 << 20
	version     = "firstflight-grafana-check 0.1.0"
	help        = `Asks statements through clickhouse-go, the library of Grafana's data source for ClickHouse.

Usage: firstflight-grafana-check HOST:PORT DATABASE USER < statements

Example: firstflight-grafana-check 127.0.0.1:9000 firstflight default < statements.jsonl`
)

type statement struct {
	Name string `json:"name"`
	SQL  string `json:"sql"`
}

type answer struct {
	Name    string      `json:"name"`
	Columns [][2]string `json:"columns,omitempty"`
	Rows    [][]any     `json:"rows,omitempty"`
	Error   string      `json:"error,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "firstflight-grafana-check:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 1 && (arguments[0] == "--help" || arguments[0] == "--version") {
		text := map[string]string{"--help": help, "--version": version}[arguments[0]]
		_, err := fmt.Println(text)
		return err
	}
	if len(arguments) != 3 {
		return fmt.Errorf("expected HOST:PORT DATABASE USER")
	}
	connection, err := clickhouse.Open(&clickhouse.Options{
		Protocol: clickhouse.Native,
		Addr:     []string{arguments[0]},
		Auth: clickhouse.Auth{
			Database: arguments[1],
			Username: arguments[2],
			Password: os.Getenv("FIRSTFLIGHT_PASSWORD"),
		},
	})
	if err != nil {
		return err
	}
	defer connection.Close()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given statement
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			return err
		}
		if err := out.Encode(ask(connection, given)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// ask runs one statement to its end; what the server refuses is part of the answer.
func ask(connection driver.Conn, given statement) answer {
	failed := func(err error) answer { return answer{Name: given.Name, Error: err.Error()} }
	rows, err := connection.Query(context.Background(), given.SQL)
	if err != nil {
		return failed(err)
	}
	defer rows.Close()
	found := answer{Name: given.Name}
	types := rows.ColumnTypes()
	for _, column := range types {
		found.Columns = append(found.Columns, [2]string{column.Name(), column.DatabaseTypeName()})
	}
	for rows.Next() {
		values := make([]any, len(types))
		for place, column := range types {
			values[place] = reflect.New(column.ScanType()).Interface()
		}
		if err := rows.Scan(values...); err != nil {
			return failed(err)
		}
		found.Rows = append(found.Rows, values)
	}
	if err := rows.Err(); err != nil {
		return failed(err)
	}
	return found
}
