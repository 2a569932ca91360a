package sdk

import (
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/boxwright/boxwright/core"
	backendv1 "github.com/boxwright/boxwright/proto/boxwright/backend/v1"
)

// Every pair here is an identity, there and back; convert_test.go fills each field to see.

func configToProto(c Config) *backendv1.ConfigureRequest {
	return &backendv1.ConfigureRequest{
		SettingsJson: c.Settings,
		Agents:       maps.Clone(c.Agents),
		Instance:     c.Instance,
		Server:       c.Server,
	}
}

func configFromProto(r *backendv1.ConfigureRequest) Config {
	return Config{
		Settings: r.GetSettingsJson(),
		Agents:   maps.Clone(r.GetAgents()),
		Instance: r.GetInstance(),
		Server:   r.GetServer(),
	}
}

func infoToProto(i core.Info) *backendv1.InfoResponse {
	limits := make(map[string]string, len(i.Limits))
	for limit, how := range i.Limits {
		limits[string(limit)] = string(how)
	}
	return &backendv1.InfoResponse{
		Name:          i.Name,
		Version:       i.Version,
		Engine:        i.Engine,
		EngineVersion: i.EngineVersion,
		Platform:      i.Platform,
		Limits:        limits,
		Warnings:      i.Warnings,
		DefaultImage:  i.DefaultImage,
	}
}

func infoFromProto(r *backendv1.InfoResponse) core.Info {
	limits := make(map[core.Limit]core.Enforcement, len(r.GetLimits()))
	for limit, how := range r.GetLimits() {
		limits[core.Limit(limit)] = core.Enforcement(how)
	}
	return core.Info{
		Name:          r.GetName(),
		Version:       r.GetVersion(),
		Engine:        r.GetEngine(),
		EngineVersion: r.GetEngineVersion(),
		Platform:      r.GetPlatform(),
		Limits:        limits,
		Warnings:      r.GetWarnings(),
		DefaultImage:  r.GetDefaultImage(),
	}
}

func progressToProto(p core.Progress) *backendv1.Progress {
	return &backendv1.Progress{Phase: string(p.Phase), Message: p.Message, Done: p.Done, Total: p.Total}
}

func progressFromProto(p *backendv1.Progress) core.Progress {
	return core.Progress{Phase: core.Phase(p.GetPhase()), Message: p.GetMessage(), Done: p.GetDone(), Total: p.GetTotal()}
}

func imageToProto(i core.Image) *backendv1.Image {
	return &backendv1.Image{Ref: i.Ref, Digest: i.Digest, Platform: i.Platform}
}

func imageFromProto(i *backendv1.Image) core.Image {
	return core.Image{Ref: i.GetRef(), Digest: i.GetDigest(), Platform: i.GetPlatform()}
}

func limitsToProto(l core.Limits) *backendv1.Limits {
	return &backendv1.Limits{MemoryBytes: l.MemoryBytes, Cpus: l.CPUs, Pids: l.PIDs, DiskBytes: l.DiskBytes}
}

func limitsFromProto(l *backendv1.Limits) core.Limits {
	return core.Limits{MemoryBytes: l.GetMemoryBytes(), CPUs: l.GetCpus(), PIDs: l.GetPids(), DiskBytes: l.GetDiskBytes()}
}

func mountToProto(m core.Mount) *backendv1.Mount {
	return &backendv1.Mount{Volume: m.Volume, Path: m.Path, Writable: m.Writable}
}

func mountFromProto(m *backendv1.Mount) core.Mount {
	return core.Mount{Volume: m.GetVolume(), Path: m.GetPath(), Writable: m.GetWritable()}
}

func labelsToProto(l core.Labels) *backendv1.Labels {
	return &backendv1.Labels{
		Instance: l.Instance,
		Server:   l.Server,
		Tenant:   l.Tenant,
		Purpose:  string(l.Purpose),
		Expires:  timeToProto(l.Expires),
	}
}

func labelsFromProto(l *backendv1.Labels) core.Labels {
	return core.Labels{
		Instance: l.GetInstance(),
		Server:   l.GetServer(),
		Tenant:   l.GetTenant(),
		Purpose:  core.Purpose(l.GetPurpose()),
		Expires:  timeFromProto(l.GetExpires()),
	}
}

func specToProto(s core.BoxSpec) *backendv1.CreateRequest {
	return &backendv1.CreateRequest{
		Image:      s.Image,
		Digest:     s.Digest,
		Limits:     limitsToProto(s.Limits),
		Network:    string(s.Network),
		Mounts:     each(s.Mounts, mountToProto),
		Labels:     labelsToProto(s.Labels),
		Unenforced: string(s.Unenforced),
		Preload:    s.Preload,
	}
}

func specFromProto(r *backendv1.CreateRequest) core.BoxSpec {
	return core.BoxSpec{
		Image:      r.GetImage(),
		Digest:     r.GetDigest(),
		Limits:     limitsFromProto(r.GetLimits()),
		Network:    core.Network(r.GetNetwork()),
		Mounts:     each(r.GetMounts(), mountFromProto),
		Labels:     labelsFromProto(r.GetLabels()),
		Unenforced: core.Unenforced(r.GetUnenforced()),
		Preload:    r.GetPreload(),
	}
}

func boxToProto(b core.Box) *backendv1.Box {
	return &backendv1.Box{
		Id:        b.ID,
		Image:     b.Image,
		Labels:    labelsToProto(b.Labels),
		State:     string(b.State),
		Created:   timeToProto(b.Created),
		OomKilled: b.OOMKilled,
		Warnings:  b.Warnings,
	}
}

func boxFromProto(b *backendv1.Box) core.Box {
	return core.Box{
		ID:        b.GetId(),
		Image:     b.GetImage(),
		Labels:    labelsFromProto(b.GetLabels()),
		State:     core.BoxState(b.GetState()),
		Created:   timeFromProto(b.GetCreated()),
		OOMKilled: b.GetOomKilled(),
		Warnings:  b.GetWarnings(),
	}
}

func volumeToProto(v core.Volume) *backendv1.Volume {
	return &backendv1.Volume{Name: v.Name, Labels: labelsToProto(v.Labels), Created: timeToProto(v.Created)}
}

func volumeFromProto(v *backendv1.Volume) core.Volume {
	return core.Volume{Name: v.GetName(), Labels: labelsFromProto(v.GetLabels()), Created: timeFromProto(v.GetCreated())}
}

func inventoryToProto(i core.Inventory) *backendv1.ListResponse {
	return &backendv1.ListResponse{Boxes: each(i.Boxes, boxToProto), Volumes: each(i.Volumes, volumeToProto)}
}

func inventoryFromProto(r *backendv1.ListResponse) core.Inventory {
	return core.Inventory{Boxes: each(r.GetBoxes(), boxFromProto), Volumes: each(r.GetVolumes(), volumeFromProto)}
}

// timeToProto keeps the zero time apart from the beginning of Unix time.
func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromProto(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func each[From, To any](list []From, convert func(From) To) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i, item := range list {
		out[i] = convert(item)
	}
	return out
}
