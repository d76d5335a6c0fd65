// An agent in another language, by plain HTTP and server-sent events: the standard library alone.
//
//	sagent serve --output-format json       prints {"url": ..., "token": ...}
//	SAGENT_URL=... SAGENT_TOKEN=... go run examples/mesh/agent.go
//	(a program, or `curl`, then sends to game.pong and desk.words)
//
// It plays ping-pong at game.pong. At desk.words it counts words with a tool, and says what it does while it does it.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type object = map[string]any
type handler func(body any, emit func(any)) (any, error)

var url, token = os.Getenv("SAGENT_URL") + "/v1/bus", os.Getenv("SAGENT_TOKEN")

// request is sent again until the server answers: it may be, for frames carry their number.
func request(method, path string, body any) {
	for ; ; time.Sleep(500 * time.Millisecond) {
		data, _ := json.Marshal(body)
		asked, _ := http.NewRequest(method, url+path, bytes.NewReader(data))
		asked.Header.Set("Authorization", "Bearer "+token)
		if answer, err := http.DefaultClient.Do(asked); err == nil {
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode < 500 {
				return
			}
		}
	}
}

// events calls a function with each event of a stream, taken up after the last one when the connection is lost.
func events(path string, each func(name string, data object)) {
	for last := ""; ; time.Sleep(500 * time.Millisecond) {
		asked, _ := http.NewRequest("GET", url+path, nil)
		asked.Header.Set("Authorization", "Bearer "+token)
		if last != "" {
			asked.Header.Set("Last-Event-ID", last)
		}
		answer, err := http.DefaultClient.Do(asked)
		if err != nil {
			continue
		}
		lines, name := bufio.NewReader(answer.Body), ""
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "id":
				last = value
			case "event":
				name = value
			case "data":
				var data object
				if json.Unmarshal([]byte(value), &data) == nil {
					each(name, data)
				}
			}
		}
		answer.Body.Close()
	}
}

// serve receives at an address, one message at a time.
func serve(card object, handle handler) {
	address := card["address"].(string)
	request("PUT", "/cards/"+address, card)
	go func() {
		for range time.Tick(5 * time.Second) {
			request("PUT", "/cards/"+address, card)
		}
	}()
	events("/inbox/"+address, func(name string, data object) {
		if name != "message" {
			return
		}
		path, number := "/deliveries/"+data["delivery"].(string), 0
		emit := func(body any) {
			number++
			request("POST", path+"/frames", object{"body": body, "number": number})
		}
		reply, err := handle(data["message"].(object)["body"], emit)
		if err != nil {
			request("POST", path+"/failure", object{"message": err.Error(), "kind": "failed"})
			return
		}
		request("POST", path+"/reply", object{"body": reply})
	})
}

func pong(body any, _ func(any)) (any, error) {
	count, ok := body.(float64)
	if !ok {
		return nil, errors.New("Give a number.")
	}
	return count + 1, nil
}

func words(body any, emit func(any)) (any, error) {
	given, _ := body.(object)
	text, ok := given["text"].(string)
	if !ok {
		return nil, errors.New("Give a text.")
	}
	emit(object{"tool": "count_words", "arguments": given})
	count := len(strings.Fields(text)) // the tool
	pause, _ := strconv.Atoi(os.Getenv("PAUSE"))
	for _, word := range []string{"There ", "are ", fmt.Sprint(count, " "), "words."} {
		emit(object{"text": word})
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return object{"text": fmt.Sprintf("There are %d words.", count), "count": count}, nil
}

func main() {
	go serve(object{"address": "game.pong", "description": "Answers with the next number."}, pong)
	fmt.Println("ready")
	serve(object{"address": "desk.words", "description": "Counts words.", "tools": []string{"count_words"}}, words)
}
