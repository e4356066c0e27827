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

{{/* The pods that ask each other for their page. */}}
{{- define "inorder.peers" -}}
{app.kubernetes.io/name: inorder, app.kubernetes.io/instance: {{ .Release.Name }}, inorder/peer: "true"}
{{- end }}

{{- define "inorder.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "inorder.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "inorder.name" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end -}}
{{- end }}

{{/* Refuses what no worker could run with, in a sentence. */}}
{{- define "inorder.check" -}}
{{- if not .Values.brokers }}{{ fail "brokers: say where Kafka answers, HOST:PORT[,…]" }}{{ end }}
{{- if not .Values.topology }}{{ fail "topology: give the topology file, as with --set-file topology=t.yaml" }}{{ end }}
{{- if and .Values.monitoring.podMonitor .Values.monitoring.serviceMonitor }}{{ fail "monitoring: podMonitor or serviceMonitor, not both, or each pod is scraped twice" }}{{ end }}
{{- range $name, $said := .Values.workers }}
{{- $scaling := (mergeOverwrite (deepCopy $.Values.workerDefaults) $said).autoscaling }}
{{- if has $name (list "peers" "metrics") }}{{ fail (printf "workers.%s: the name is that of a service of all pods; take another" $name) }}{{ end }}
{{- if and $scaling.cpu $scaling.lag }}{{ fail (printf "workers.%s.autoscaling: by cpu or by lag, not by both" $name) }}{{ end }}
{{- end }}
{{- end }}

{{/* No pod may write but to its volumes, nor gain rights. */}}
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

{{/* What each container is told of Kafka. */}}
{{- define "inorder.env" -}}
- {name: INORDER_LOG, value: json}
{{- if .Values.kafka.settings }}
- {name: INORDER_KAFKA, value: /etc/inorder/kafka.properties}
{{- end }}
{{- range $name, $from := .Values.kafka.secretEnv }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $from.name | quote }}, key: {{ $from.key | quote }}}}
{{- end }}
{{- end }}

{{- define "inorder.mounts" -}}
- {name: settings, mountPath: /etc/inorder, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.kafka.mount }}
- {name: kafka-tls, mountPath: /etc/inorder-tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "inorder.volumes" -}}
- name: settings
  configMap: {name: {{ include "inorder.name" . }}-settings}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- if .Values.kafka.mount }}
- name: kafka-tls
  secret: {secretName: {{ .Values.kafka.mount | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
