package migration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// formatVersion is that of everything which is written to files and printed for programs.
const formatVersion = "migration.clusterip-operator.io/v1alpha1"

// Kinds of a Report.
const (
	KindReport = "MigrationReport"
	KindPlan   = "MigrationPlan"
)

// Report is a plan as programs read it, and as it is kept in a file.
type Report struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Cluster    types.UID      `json:"cluster"`
	Revision   int64          `json:"revision"`
	Allocator  Allocator      `json:"allocator"`
	Ranges     []netip.Prefix `json:"ranges"`
	Counts     Counts         `json:"counts"`
	Bitmaps    []BitmapReport `json:"bitmaps"`
	Findings   []Finding      `json:"findings"`
	Steps      []Step         `json:"steps"`
}

// Counts sum up a Report.
type Counts struct {
	Services     int `json:"services"`
	ClusterIPs   int `json:"clusterIPs"`
	OK           int `json:"ok"`
	IPAddresses  int `json:"ipAddresses"`
	ServiceCIDRs int `json:"serviceCIDRs"`
	Findings     int `json:"findings"`
}

// BitmapReport tells of a bitmap.
type BitmapReport struct {
	Key         string `json:"key"`
	Range       string `json:"range"`
	Used        int    `json:"used"`
	ModRevision int64  `json:"modRevision"`
	Error       string `json:"error,omitempty"`
}

// Report returns the plan for programs.
func (p *Plan) Report(kind string) Report {
	r := Report{
		APIVersion: formatVersion, Kind: kind, Cluster: p.Snapshot.Cluster, Revision: p.Snapshot.Revision, Allocator: p.Snapshot.Allocator,
		Ranges: list(p.Ranges), Findings: list(p.Findings), Steps: list(p.Steps), Bitmaps: []BitmapReport{},
		Counts: Counts{
			Services: len(p.Snapshot.Services), ClusterIPs: p.Addresses, OK: p.OK, IPAddresses: len(p.Snapshot.IPAddresses),
			ServiceCIDRs: len(p.Snapshot.ServiceCIDRs), Findings: len(p.Findings),
		},
	}
	for _, s := range p.Snapshot.Bitmaps {
		b := BitmapReport{Key: s.Key, Range: Printable(s.Range), ModRevision: s.ModRevision}
		if s.Err != nil {
			b.Error = Printable(s.Err.Error())
		} else {
			b.Used = s.Bitmap.Len()
		}
		r.Bitmaps = append(r.Bitmaps, b)
	}
	return r
}

// list is never nil, so that programs find a list where there is nothing.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// LoadPlan reads a plan that was written to a file, as YAML or JSON. Unknown fields are errors: they may mean something.
func LoadPlan(file string) (Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Report{}, fmt.Errorf("reading the plan: %w", err)
	}
	var r Report
	if err := strictUnmarshal(text, &r); err != nil {
		return Report{}, fmt.Errorf("reading the plan %s: %w", file, err)
	}
	if r.APIVersion != formatVersion || r.Kind != KindPlan {
		return Report{}, fmt.Errorf("%s is %q %q, not %s %s; write one with `migrate plan -o %s`", file, r.APIVersion, r.Kind, formatVersion, KindPlan, file)
	}
	for i, s := range r.Steps {
		if err := s.validate(); err != nil {
			return Report{}, fmt.Errorf("%s: step %d: %w", file, i+1, err)
		}
	}
	return r, nil
}

// strictUnmarshal reads a file of one JSON or YAML document, and refuses fields that it does not know, fields that are there
// twice, and whatever comes after the document.
func strictUnmarshal(text []byte, into any) error {
	asJSON := text
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var err error
		if asJSON, err = onlyDocument(text); err != nil {
			return err
		}
	}
	strict, err := kjson.UnmarshalStrict(asJSON, into)
	return errors.Join(append([]error{err}, strict...)...)
}

func onlyDocument(text []byte) (asJSON []byte, err error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	first, err := documents.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	}
	if err != nil {
		return nil, err
	}
	if _, err := documents.Read(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	return yaml.YAMLToJSONStrict(first)
}
