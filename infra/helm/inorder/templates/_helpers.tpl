{{- define "inorder.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "inorder.labels" -}}
app.kubernetes.io/name: inorder
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "inorder.selector" -}}
app.kubernetes.io/name: inorder
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "inorder.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "inorder.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "inorder.name" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end -}}
{{- end }}

{{/* Refuses values with which no worker could run. */}}
{{- define "inorder.check" -}}
{{- if not .Values.brokers }}{{ fail "brokers: give the addresses of Kafka, HOST:PORT[,…]" }}{{ end }}
{{- if not .Values.topology }}{{ fail "topology: give the topology file, as with --set-file topology=t.yaml" }}{{ end }}
{{- if and (eq (toString .Values.monitoring.podMonitor) "true") .Values.monitoring.serviceMonitor }}{{ fail "monitoring: set podMonitor or serviceMonitor, not both; otherwise each pod is scraped twice" }}{{ end }}
{{- include "inorder.checkToken" . }}
{{- include "inorder.checkSecrets" . }}
{{- range $name, $said := .Values.workers }}
{{- $worker := mergeOverwrite (deepCopy $.Values.workerDefaults) $said }}
{{- $scaling := $worker.autoscaling }}
{{- if eq $name "metrics" }}{{ fail "workers.metrics: the name is that of a service of all pods; choose another" }}{{ end }}
{{- if and $scaling.cpu $scaling.lag }}{{ fail (printf "workers.%s.autoscaling: scale by cpu or by lag, not by both" $name) }}{{ end }}
{{- range $by, $bounds := dict "cpu" $scaling.cpu "lag" $scaling.lag }}
{{- if gt (int $bounds.min) (int $bounds.max) }}{{ fail (printf "workers.%s.autoscaling.%s: min is %v and max %v; let min be at most max" $name $by $bounds.min $bounds.max) }}{{ end }}
{{- end }}
{{- range $worker.stages }}{{ include "inorder.checkStage" (dict "root" $ "said" . "where" (printf "workers.%s.stages" $name)) }}{{ end }}
{{- if $scaling.lag }}{{ include "inorder.checkLag" (dict "root" $ "worker" $worker "name" $name) }}{{ end }}
{{- include "inorder.checkOneTask" (dict "root" $ "worker" $worker "name" $name) }}
{{- end }}
{{- include "inorder.checkWhole" . }}
{{- end }}

{{/* Whether to create a kind of the Prometheus operator: `said`; for auto, whether the cluster has the kind. */}}
{{- define "inorder.isOn" -}}
{{- if or (eq (toString .said) "true") (and (eq (toString .said) "auto") (.root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind))) }}yes{{ end }}
{{- end }}

{{/* How Prometheus finds the pods: "service" or "pod" (monitors), "annotations", or "" for not at all. */}}
{{- define "inorder.scraped" -}}
{{- if .Values.monitoring.serviceMonitor }}service
{{- else if include "inorder.isOn" (dict "root" . "said" .Values.monitoring.podMonitor "kind" "PodMonitor") }}pod
{{- else if .Values.monitoring.annotations }}annotations
{{- end }}
{{- end }}

{{/* The secret with the token of the HTTP port, as JSON; empty if the port needs no token. */}}
{{- define "inorder.token" -}}
{{- with get .Values.kafka.secretEnv "INORDER_HTTP_TOKEN" }}{{ toJson . }}
{{- else }}{{ if .Values.token }}{{ dict "name" (printf "%s-http" (include "inorder.name" .)) "key" "token" | toJson }}{{ end }}
{{- end }}
{{- end }}

{{/* The authorization that a monitor sends to a port that requires a token, for /metrics too. */}}
{{- define "inorder.authorization" -}}
{{- with include "inorder.token" . -}}
authorization:
  type: Bearer
  credentials: {{ . }}
{{- end }}
{{- end }}

{{/* Refuses a token of the port that Prometheus could not send. */}}
{{- define "inorder.checkToken" -}}
{{- if and (eq (include "inorder.scraped" .) "annotations") (include "inorder.token" .) }}{{ fail "monitoring: /metrics requires a token, and annotations cannot carry it; set serviceMonitor or podMonitor, which can, or token: false" }}{{ end }}
{{- $found := keys .Values.kafka.secretEnv .Values.workerDefaults.env }}
{{- range .Values.extraEnv }}{{ $found = append $found .name }}{{ end }}
{{- range $said := .Values.workers }}{{ $found = concat $found (keys (($said | default dict).env | default dict)) }}{{ end }}
{{- if has "INORDER_HTTP_TOKEN_FILE" $found }}{{ fail "INORDER_HTTP_TOKEN_FILE: Prometheus has to send the token too; give its secret as INORDER_HTTP_TOKEN in kafka.secretEnv" }}{{ end }}
{{- end }}

{{/* The topology as values. */}}
{{- define "inorder.parsed" -}}
{{- $parsed := fromYaml .Values.topology }}
{{- with $parsed.Error }}{{ fail (printf "topology: it is not YAML: %s" .) }}{{ end }}
{{- toJson $parsed }}
{{- end }}

{{/* A stage's name in one form: no blanks around the plus. */}}
{{- define "inorder.stage" -}}
{{- regexReplaceAll "\\s*\\+\\s*" (trim .) "+" }}
{{- end }}

{{/* The stages that run, one in each line: those that the topology names, or the default ones (topology/config/cut.py). */}}
{{- define "inorder.stages" -}}
{{- $topology := fromJson (include "inorder.parsed" .) }}
{{- $written := list }}
{{- range $topology.stages }}{{ $written = append $written (include "inorder.stage" (toString .)) }}{{ end }}
{{- if and $written (not (has "all" $written)) }}{{ join "\n" $written }}
{{- else }}all{{ "\n" }}{{ if include "inorder.isDetectorApart" $topology }}detector{{ end }}
{{- end }}
{{- end }}

{{/* Whether detectors run in a default stage of their own: none speculates, and none reads results of other operators. */}}
{{- define "inorder.isDetectorApart" -}}
{{- $found := false }}
{{- $isApart := true }}
{{- range $query := .queries }}
{{- if $query.detector }}{{ $found = true }}{{ if eq (toString $query.answer) "speculate" }}{{ $isApart = false }}{{ end }}{{ end }}
{{- range $query.reads }}{{ if not (get (get $.queries . | default dict) "detector") }}{{ $isApart = false }}{{ end }}{{ end }}
{{- end }}
{{- if and $found $isApart }}yes{{ end }}
{{- end }}

{{/* Whether one task reads all inputs: one group of partitions (topology/config/groups.py), which only one pod can have. */}}
{{- define "inorder.isOneTask" -}}
{{- $topology := fromJson (include "inorder.parsed" .root) }}
{{- $operators := splitList "+" .stage }}
{{- if or (eq .stage "all") (and (has "reorder" $operators) (has "merge" $operators)) }}
{{- $streams := $topology.streams | default (dict "default" dict) }}
{{- $inputs := dict }}
{{- $isWhole := false }}
{{- range $name, $stream := $streams }}
{{- $_ := set $inputs $name (get ($stream | default dict) "input" | default "events.raw") }}
{{- if ne (get ($stream | default dict) "keyed_by" | default "source") "stream" }}{{ $isWhole = true }}{{ end }}
{{- end }}
{{- $first := keys $streams | sortAlpha | first }}
{{- $group := list (get $inputs $first) }}
{{- range $topology.queries }}
{{- range $query := $topology.queries }}
{{- $names := list }}
{{- range $side := $query.sides }}{{ $names = append $names ($side.stream | default $first) | uniq }}{{ end }}
{{- if gt (len $names) 1 }}{{ $isWhole = true }}{{ end }}
{{- $joined := list }}
{{- range $names }}{{ $joined = append $joined (get $inputs .) }}{{ end }}
{{- $isIn := false }}
{{- range $joined }}{{ if has . $group }}{{ $isIn = true }}{{ end }}{{ end }}
{{- if $isIn }}{{ $group = concat $group $joined | uniq }}{{ end }}
{{- end }}
{{- end }}
{{- if and $isWhole (eq (len $group) (len (values $inputs | uniq))) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* Refuses to scale pods of which only one can have work. */}}
{{- define "inorder.checkOneTask" -}}
{{- $scaling := .worker.autoscaling }}
{{- if or $scaling.cpu $scaling.lag }}
{{- $scaled := .worker.stages | default (splitList "\n" (trim (include "inorder.stages" .root))) }}
{{- if $scaling.lag }}{{ $scaled = list (include "inorder.lagStage" .) }}{{ end }}
{{- $isOne := true }}
{{- range $scaled }}
{{- if not (include "inorder.isOneTask" (dict "root" $.root "stage" (include "inorder.stage" .))) }}{{ $isOne = false }}{{ end }}
{{- end }}
{{- if $isOne }}{{ fail (printf "workers.%s.autoscaling: one task of stage %s reads all partitions, so other pods are standbys; set replicas: 2, or cut the stages (docs/operate/size.md)" .name (first $scaled)) }}{{ end }}
{{- end }}
{{- end }}

{{/* Refuses a secret that would be in a ConfigMap or in a pod's definition. */}}
{{- define "inorder.checkSecrets" -}}
{{- if regexMatch "://[^\\s/@\"']*:[^\\s/@\"']+@" .Values.topology }}{{ fail "topology: a URL has a password, and the file is in a ConfigMap; leave it out, and give it in kafka.secretEnv, for example INORDER_REDIS_PASSWORD: {name: SECRET, key: KEY}" }}{{ end }}
{{- range $name, $value := .Values.kafka.settings }}
{{- if regexMatch "(password|secret|token)$" $name }}{{ fail (printf "kafka.settings.%s: the settings are in a ConfigMap; write kafka.secretEnv: {INORDER_%s: {name: SECRET, key: KEY}}" $name (replace "." "_" $name | upper)) }}{{ end }}
{{- end }}
{{- $extra := dict }}
{{- range .Values.extraEnv }}{{ $_ := set $extra .name (.value | default "" | toString) }}{{ if .valueFrom }}{{ $_ := unset $extra .name }}{{ end }}{{ end }}
{{- include "inorder.checkEnv" (dict "env" $extra "where" "extraEnv") }}
{{- include "inorder.checkEnv" (dict "env" .Values.workerDefaults.env "where" "workerDefaults.env") }}
{{- range $name, $said := .Values.workers }}
{{- include "inorder.checkEnv" (dict "env" ($said | default dict).env "where" (printf "workers.%s.env" $name)) }}
{{- end }}
{{- end }}

{{- define "inorder.checkEnv" -}}
{{- range $name, $value := .env }}
{{- if or (regexMatch "_(PASSWORD|SECRET|TOKEN|MASTER_KEYS|SIGNING_KEY)$" $name) (regexMatch "://[^/@]*:[^/@]+@" (toString $value)) }}{{ fail (printf "%s.%s: a secret in plain text; write kafka.secretEnv: {%s: {name: SECRET, key: KEY}}" $.where $name $name) }}{{ end }}
{{- end }}
{{- end }}

{{/* Refuses sets of pods that leave out a stage with work, because its output would never arrive. */}}
{{- define "inorder.checkWhole" -}}
{{- $named := list }}
{{- $all := false }}
{{- range $said := .Values.workers }}
{{- $stages := (mergeOverwrite (deepCopy $.Values.workerDefaults) $said).stages }}
{{- if not $stages }}{{ $all = true }}{{ end }}
{{- range $stages }}{{ $named = append $named (include "inorder.stage" .) }}{{ end }}
{{- end }}
{{- if not $all }}
{{- $topology := fromJson (include "inorder.parsed" .) }}
{{- $written := splitList "\n" (trim (include "inorder.stages" .)) | compact }}
{{- $asked := list }}
{{- range $query := $topology.queries }}{{ $asked = concat $asked (keys $query) }}{{ end }}
{{- range $stage := $written }}
{{- $works := false }}
{{- range splitList "+" $stage }}
{{- if or (not (has . (list "window" "pattern" "join" "detector"))) (has . $asked) }}{{ $works = true }}{{ end }}
{{- end }}
{{- if and $works (not (has $stage $named)) }}{{ fail (printf "workers: no set runs stage %s of the topology; name it in the stages of a set, or let one set run all" $stage) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses the name of a stage that is not in the topology. */}}
{{- define "inorder.checkStage" -}}
{{- $stage := include "inorder.stage" .said }}
{{- $written := splitList "\n" (trim (include "inorder.stages" .root)) | compact }}
{{- if not (has $stage $written) }}{{ fail (printf "%s: the topology has no stage %s, but %s" .where .said (join ", " $written)) }}{{ end }}
{{- end }}

{{/* The stage whose lag counts: the one that is named, or the only one that the pods run. */}}
{{- define "inorder.lagStage" -}}
{{- $run := .worker.stages | default (splitList "\n" (trim (include "inorder.stages" .root)) | compact) }}
{{- with .worker.autoscaling.lag.stage }}{{ include "inorder.stage" . }}
{{- else }}{{ if eq (len $run) 1 }}{{ include "inorder.stage" (first $run) }}{{ end }}
{{- end }}
{{- end }}

{{/* The group of that stage, as workers form it. */}}
{{- define "inorder.lagGroup" -}}
{{- (fromJson (include "inorder.parsed" .root)).application | default "inorder" }}.{{ include "inorder.lagStage" . }}
{{- end }}

{{/* The security protocol with which KEDA connects to the brokers: that of the pods. */}}
{{- define "inorder.protocol" -}}
{{- $settings := .root.Values.kafka.settings }}
{{- get (.worker.env | default dict) "INORDER_SECURITY_PROTOCOL" | default (index $settings "security.protocol") | default "PLAINTEXT" | upper }}
{{- end }}

{{- define "inorder.mechanism" -}}
{{- $settings := .root.Values.kafka.settings }}
{{- $said := get (.worker.env | default dict) "INORDER_SASL_MECHANISM" | default (index $settings "sasl.mechanism") | default "" | upper }}
{{- get (dict "PLAIN" "plaintext" "SCRAM-SHA-256" "scram_sha256" "SCRAM-SHA-512" "scram_sha512" "OAUTHBEARER" "oauthbearer") $said }}
{{- end }}

{{/* The labels of this release's series. */}}
{{- define "inorder.series" -}}
namespace="{{ .Release.Namespace }}"
{{- $scraped := include "inorder.scraped" . }}
{{- if eq $scraped "service" }},job="{{ include "inorder.name" . }}-metrics"{{ end }}
{{- if eq $scraped "pod" }},job="{{ .Release.Namespace }}/{{ include "inorder.name" . }}"{{ end }}
{{- end }}

{{- define "inorder.checkLag" -}}
{{- $where := printf "workers.%s.autoscaling.lag" .name }}
{{- $stage := include "inorder.lagStage" . }}
{{- if not $stage }}{{ fail (printf "%s.stage: the pods run several stages; name the one whose lag counts" $where) }}{{ end }}
{{- include "inorder.checkStage" (dict "root" .root "said" $stage "where" (printf "%s.stage" $where)) }}
{{- $run := list }}
{{- range .worker.stages }}{{ $run = append $run (include "inorder.stage" .) }}{{ end }}
{{- if and $run (not (has $stage $run)) }}{{ fail (printf "%s.stage: these pods do not run %s, but %s" $where $stage (join ", " $run)) }}{{ end }}
{{- range list "INORDER_SECURITY_PROTOCOL" "INORDER_SASL_MECHANISM" }}
{{- if hasKey $.root.Values.kafka.secretEnv . }}{{ fail (printf "%s: KEDA needs it too; write %s into kafka.settings, because it is not a secret" $where .) }}{{ end }}
{{- end }}
{{- $protocol := include "inorder.protocol" . }}
{{- if and (hasPrefix "SASL" $protocol) (not (include "inorder.mechanism" .)) }}{{ fail (printf "kafka.settings: %s needs sasl.mechanism, one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" $protocol) }}{{ end }}
{{- $settings := .root.Values.kafka.settings }}
{{- $asked := or (hasPrefix "SASL" $protocol) (hasKey $settings "ssl.ca.location") (hasKey $settings "ssl.certificate.location") }}
{{- if and $asked (not .worker.autoscaling.lag.authenticationRef) }}{{ fail (printf "%s.authenticationRef: the brokers use %s, and KEDA connects to them itself; name a TriggerAuthentication (docs/operate/kubernetes.md, Scale by lag)" $where $protocol) }}{{ end }}
{{- end }}

{{/* Pods may write only to their volumes, and cannot gain rights. */}}
{{- define "inorder.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "inorder.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The environment variables of each container. */}}
{{- define "inorder.env" -}}
- {name: INORDER_LOG, value: json}
{{- if .Values.kafka.settings }}
- {name: INORDER_KAFKA, value: /etc/inorder/kafka.properties}
{{- end }}
{{- range $name, $from := .Values.kafka.secretEnv }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $from.name | quote }}, key: {{ $from.key | quote }}}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The token of the port, for its server and its clients, in addition to inorder.env. */}}
{{- define "inorder.tokenEnv" -}}
{{- if not (hasKey .Values.kafka.secretEnv "INORDER_HTTP_TOKEN") }}
{{- with include "inorder.token" . }}
- {name: INORDER_HTTP_TOKEN, valueFrom: {secretKeyRef: {{ . }}}}
{{- end }}
{{- end }}
{{- end }}

{{/* Files for the program: the topology, functions, and settings of Kafka without secrets. */}}
{{- define "inorder.files" -}}
topology.yaml: |
  {{- .Values.topology | nindent 2 }}
{{- range $name, $text := .Values.functions }}
{{ $name }}: |
  {{- $text | nindent 2 }}
{{- end }}
{{- with .Values.kafka.settings }}
kafka.properties: |
  {{- range $name, $value := . }}
  {{ $name }}={{ $value }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The name changes with the files, so that old pods keep their files and an upgrade restarts the pods. */}}
{{- define "inorder.settings" -}}
{{ include "inorder.name" . }}-settings-{{ include "inorder.files" . | sha256sum | trunc 10 }}
{{- end }}

{{- define "inorder.mounts" -}}
- {name: settings, mountPath: /etc/inorder, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range $place, $secret := .Values.kafka.mounts }}
- {name: kafka-{{ $place }}, mountPath: {{ printf "/etc/inorder-tls/%s" $secret | quote }}, readOnly: true}
{{- end }}
{{- if .Values.kafka.token.audience }}
- {name: kafka-token, mountPath: /etc/inorder-token, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Volumes of inorder.mounts, with the files of the ConfigMap `settings`. */}}
{{- define "inorder.volumes" -}}
{{- $values := .root.Values -}}
- name: settings
  configMap: {name: {{ .settings }}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- range $place, $secret := $values.kafka.mounts }}
- name: kafka-{{ $place }}
  secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
{{- end }}
{{- with $values.kafka.token }}
{{- if .audience }}
- name: kafka-token
  projected:
    defaultMode: 0440
    sources: [{serviceAccountToken: {audience: {{ .audience | quote }}, expirationSeconds: {{ .seconds }}, path: token}}]
{{- end }}
{{- end }}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Settings of all kinds of pods, except the account. */}}
{{- define "inorder.pod" -}}
automountServiceAccountToken: false
securityContext: {{- include "inorder.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Settings of a container that runs one command. */}}
{{- define "inorder.once" -}}
image: {{ include "inorder.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "inorder.containerSecurity" . | nindent 2 }}
resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 512Mi}}
volumeMounts: {{- include "inorder.mounts" . | nindent 2 }}
{{- end }}

{{/* Spreads the pods of one component over the nodes, if there are several. */}}
{{- define "inorder.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "inorder.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The annotations by which Prometheus finds pods without a monitor, and those of the user. */}}
{{- define "inorder.annotations" -}}
{{- $found := deepCopy .Values.podAnnotations }}
{{- if eq (include "inorder.scraped" .) "annotations" }}
{{- $found = merge $found (dict "prometheus.io/scrape" "true" "prometheus.io/port" "8080" "prometheus.io/path" "/metrics") }}
{{- end }}
{{- with $found }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
