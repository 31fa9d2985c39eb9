{{- /* Labels that select the pods of this release. */}}
{{- define "inference.selector" -}}
app.kubernetes.io/name: inference
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels of every object. */}}
{{- define "inference.labels" -}}
{{ include "inference.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "inference.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Settings as the data of a ConfigMap or Secret, whose values are texts. Helm reads numbers as floats; toJson prints no exponent. */}}
{{- define "inference.data" -}}
{{- $data := dict }}
{{- range $name, $value := . }}
{{- $_ := set $data $name (kindIs "string" $value | ternary $value (toJson $value)) }}
{{- end }}
{{- toYaml $data }}
{{- end }}

{{- /* terminationGracePeriodSeconds for these settings: the delay, the grace period, and ten seconds. */}}
{{- define "inference.stopSeconds" -}}
{{- $stopMs := add (int64 .SHUTDOWN_DELAY_MS) (int64 .SHUTDOWN_GRACE_MS) -}}
{{ add 10 (div (add $stopMs 999) 1000) }}
{{- end }}

{{- define "inference.planFile" -}}
{{ .Values.planFile.configMap | default (printf "%s-plans" .Release.Name) }}
{{- end }}

{{- /* The names of the Secrets: (list "stores" $) */}}
{{- define "inference.secret" -}}
{{- $kind := index . 0 }}{{- $top := index . 1 -}}
{{ (index $top.Values.secrets $kind).name | default (printf "%s-%s" $top.Release.Name $kind) }}
{{- end }}

{{- /* Spreads pods with these labels over zones and nodes. */}}
{{- define "inference.spread" -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- $ | nindent 6 }}
{{- end }}
{{- end }}

{{- /* What both kinds of containers have. */}}
{{- define "inference.container" -}}
livenessProbe: { httpGet: { path: /healthz, port: ops }, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 6 }
readinessProbe: { httpGet: { path: /readyz, port: ops }, periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 2 }
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
volumeMounts:
  - { name: plans, mountPath: /etc/inference, readOnly: true } # a folder, because Kubernetes never updates a file of a subPath
  - { name: tmp, mountPath: /tmp }
  {{- with .extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* Where pods run, with the values of `ingress` or of a pool. */}}
{{- define "inference.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* The host of BASE_URL. */}}
{{- define "inference.host" -}}
{{ (urlParse .Values.ingress.settings.BASE_URL).hostname }}
{{- end }}
