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

{{- /* config.listen.drain_timeout in seconds; 0 if a placeholder stands there. */ -}}
{{- define "nsgate.drainSeconds" -}}
{{- $drain := .Values.config.listen.drain_timeout | default "30s" -}}
{{- $number := regexFind "^[0-9]+" $drain | int -}}
{{- if hasSuffix "ms" $drain }}{{ div $number 1000 }}
{{- else if hasSuffix "s" $drain }}{{ $number }}
{{- else if hasSuffix "m" $drain }}{{ mul $number 60 }}
{{- else if hasSuffix "h" $drain }}{{ mul $number 3600 }}
{{- else }}0
{{- end }}
{{- end }}

{{- /* The name of the service account; nothing for the namespace's `default`. */ -}}
{{- define "nsgate.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "nsgate.name" .) }}
{{- else }}{{ .Values.serviceAccount.name }}
{{- end }}
{{- end }}
