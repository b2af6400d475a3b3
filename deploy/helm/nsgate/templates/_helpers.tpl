{{- define "nsgate.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "nsgate.selector" -}}
app.kubernetes.io/name: nsgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "nsgate.labels" -}}
{{ include "nsgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
