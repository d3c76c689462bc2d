package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

var someMembers = Members{
	"a":      {Max: 8},
	"object": {Members: Members{"name": {Max: 16}, "labels": {Max: 64}, "inner": {Members: Members{"x": {Max: 32}}}}},
}

// trimOf trims a text that is read with a chunk of so many bytes.
func trimOf(text io.Reader, chunk int, keep Members) (*trimmer, error) {
	t := &trimmer{chunk: make([]byte, 0, chunk), most: keep.most(), fill: text.Read}
	return t, t.object(keep)
}

func TestTrim(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want, wantLong string
		wantErr              error
	}{
		"nothing of it is kept":   {text: `{"b":1,"c":[{"a":"x"}]}`, want: `{}`},
		"scalars":                 {text: `{"a":-1.5e3,"b":true}`, want: `{"a":-1.5e3}`},
		"white space":             {text: "\n{ \"a\" :\t1 , \"object\" : { \"name\" : \"n\" } }\n", want: `{"a":1,"object":{"name":"n"}}`},
		"null for an object":      {text: `{"object":null}`, want: `{"object":null}`},
		"a list for an object":    {text: `{"object":[{"name":"n"}],"a":2}`, want: `{"object":null,"a":2}`},
		"brackets in texts":       {text: `{"b":"}]\"}","a":"[{\\"}`, want: `{"a":"[{\\"}`},
		"objects in objects":      {text: `{"object":{"inner":{"x":{"y":[1]},"z":{}},"spec":{"name":"no"}}}`, want: `{"object":{"inner":{"x":{"y":[1]}}}}`},
		"a key with escapes":      {text: `{"\u0061":1}`, want: `{}`},
		"as long as it may be":    {text: `{"a":"123456"}`, want: `{"a":"123456"}`},
		"longer than it may be":   {text: `{"a":"1234567","object":{"name":"n"}}`, want: `{"a":null,"object":{"name":"n"}}`, wantLong: `"a"`},
		"a number without an end": {text: `{"a":` + strings.Repeat("1", 1000) + `}`, want: `{"a":null}`, wantLong: `"a"`},
		"a key without an end":    {text: `{"` + strings.Repeat("k", 1000) + `":{"a":1},"a":1}`, want: `{"a":1}`},
		"deep":                    {text: `{"b":` + strings.Repeat(`[{"a":`, 100000) + "1" + strings.Repeat(`}]`, 100000) + `,"a":1}`, want: `{"a":1}`},
		"repeated":                {text: `{` + strings.Repeat(`"a":1,`, 100) + `"a":1}`, wantErr: errMalformed},
		"no object":               {text: `[]`, wantErr: errMalformed},
		"nothing":                 {text: ``, wantErr: io.ErrUnexpectedEOF},
		"no end":                  {text: `{"a":1`, wantErr: io.ErrUnexpectedEOF},
		"no colon":                {text: `{"a"1}`, wantErr: errMalformed},
		"no key":                  {text: `{1:2}`, wantErr: errMalformed},
	} {
		for _, chunk := range []int{1, 3, 1 << 10} {
			got, err := trimOf(strings.NewReader(tc.text), chunk, someMembers)
			if !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Errorf("%s, by %d bytes: the error is %v, want %v", name, chunk, err, tc.wantErr)
				continue
			}
			if diff := cmp.Diff([]string{tc.want, tc.wantLong}, []string{string(got.kept), got.long}); err == nil && diff != "" {
				t.Errorf("%s, by %d bytes (-want +got):\n%s", name, chunk, diff)
			}
			if len(got.kept) > got.most+maxKey {
				t.Errorf("%s: %d bytes are held", name, len(got.kept))
			}
		}
	}
}

// A connection that breaks is no malformed review, wherever it does.
func TestTrimOfABrokenConnection(t *testing.T) {
	broken := errors.New("connection reset")
	for _, text := range []string{``, `{`, `{"`, `{"a"`, `{"a" `, `{"a":`, `{"a":"`, `{"a":1`, `{"b":[`, `{"object":`, `{"object":{`, `{"object":{"name"`, `{"a":1,`} {
		for _, chunk := range []int{1, 4, 64} {
			_, err := trimOf(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), chunk, someMembers)
			if !errors.Is(err, broken) || errors.Is(err, errMalformed) {
				t.Errorf("behind %s, by %d bytes: the error is %v", text, chunk, err)
			}
		}
	}
}

// FuzzTrim compares with encoding/json: of what that takes for an object, the wanted members are
// kept as they are, unless they are too long; and whatever comes, no more is held than there may
// be.
func FuzzTrim(f *testing.F) {
	f.Add([]byte(`{"a":1,"object":{"name":"n","labels":{"k":"v"},"inner":{"x":[{}]}}}`), uint8(3))
	f.Add([]byte(`{"object":{"labels":{"a\u0000":"\ud800"}},"b":"\\\"}"}`), uint8(1))
	f.Add([]byte(" {\"a\"\n:\ttrue }"), uint8(200))
	f.Fuzz(func(t *testing.T, text []byte, chunk uint8) {
		got, err := trimOf(strings.NewReader(string(text)), int(chunk)+1, someMembers)
		if len(got.kept) > got.most+maxKey || cap(got.kept) > 4*(got.most+maxKey) {
			t.Fatalf("%d bytes are held", len(got.kept))
		}
		type object struct {
			A      json.RawMessage `json:"a"`
			Object *struct {
				Name   json.RawMessage `json:"name"`
				Labels json.RawMessage `json:"labels"`
				Inner  *struct {
					X json.RawMessage `json:"x"`
				} `json:"inner"`
			} `json:"object"`
		}
		var want, have object
		if !plain(text) || json.Unmarshal(text, &want) != nil {
			return
		}
		if err != nil {
			t.Fatalf("it is an object: %v", err)
		}
		if err := json.Unmarshal(got.kept, &have); err != nil {
			t.Fatalf("%s: %v", got.kept, err)
		}
		if got.long == "" && !reflect.DeepEqual(want, have) {
			t.Errorf("kept is %s of %s", got.kept, text)
		}
	})
}

// plain reports whether encoding/json reads keys of a text as they stand there, and none of them
// twice: it folds case, and knows escapes.
func plain(text []byte) bool {
	lower := strings.ToLower(string(text))
	for _, key := range []string{`"a"`, `"object"`, `"name"`, `"labels"`, `"inner"`, `"x"`} {
		if strings.Count(lower, key) > 1 {
			return false
		}
	}
	return lower == string(text) && !strings.Contains(lower, `\u00`) && !strings.ContainsAny(lower, "ſK")
}
