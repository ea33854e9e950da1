{{- define "edge.labels" -}}
app.kubernetes.io/part-of: kubeflow-corpus
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "edge.issuerUrl" -}}
https://{{ first .Values.hosts }}
{{- end -}}

{{- define "edge.issuerHost" -}}
issuer.{{ .Release.Namespace }}.svc.cluster.local
{{- end -}}

{{- define "edge.mcpHost" -}}
{{ .Values.corpus.mcpService }}.{{ .Values.corpus.namespace }}.svc.cluster.local
{{- end -}}

{{- define "edge.image" -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- end -}}

{{- define "edge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "edge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* A bucket: the burst, filled at a rate. Envoy wants one fill interval for all buckets of a filter. */}}
{{- define "edge.bucket" -}}
max_tokens: {{ .burst }}
tokens_per_fill: {{ .perMinute }}
fill_interval: 60s
{{- end -}}

{{- define "edge.cors" -}}
corsPolicy:
  {{- if .Values.origins }}
  allowOrigins:
    {{- range .Values.origins }}
    - exact: {{ . }}
    {{- end }}
  {{- else }}
  # No browser at all: an origin that none can have.
  allowOrigins:
    - exact: https://nobody.invalid
  {{- end }}
  allowMethods: [POST, GET, DELETE]
  allowHeaders: [authorization, content-type, accept, mcp-session-id, mcp-protocol-version]
  exposeHeaders: [mcp-session-id, retry-after]
  # Tokens travel in a header, never in a cookie.
  allowCredentials: false
  maxAge: 600s
{{- end -}}

{{- define "edge.origins" -}}
{{- if .Values.origins -}}
{{ toJson .Values.origins }}
{{- else -}}
["https://nobody.invalid"]
{{- end -}}
{{- end -}}

{{/* Where the pods of a part run. */}}
{{- define "edge.nodes" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "edge.beforeRouter" -}}
context: GATEWAY
listener:
  filterChain:
    filter:
      name: envoy.filters.network.http_connection_manager
      subFilter:
        name: envoy.filters.http.router
{{- end -}}

{{- define "edge.enforced" -}}
token_bucket:
  {{- include "edge.bucket" .bucket | nindent 2 }}
filter_enabled:
  default_value: {numerator: 100, denominator: HUNDRED}
filter_enforced:
  default_value: {numerator: 100, denominator: HUNDRED}
status: {code: TooManyRequests}
response_headers_to_add:
  - header: {key: retry-after, value: {{ max 1 (div 60 .limit.perMinute) | quote }}}
    append_action: OVERWRITE_IF_EXISTS_OR_ADD
{{- end -}}

{{- define "edge.rotation" -}}
backoffLimit: 4
activeDeadlineSeconds: 300
ttlSecondsAfterFinished: 3600
template:
  metadata:
    labels:
      app.kubernetes.io/name: key-rotation
      {{- include "edge.labels" . | nindent 6 }}
      sidecar.istio.io/inject: "false"
  spec:
    serviceAccountName: key-rotation
    restartPolicy: OnFailure
    {{- with .Values.image.pullSecrets }}
    imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
    {{- end }}
    {{- include "edge.nodes" .Values.issuer | nindent 4 }}
    securityContext:
      {{- include "edge.podSecurity" . | nindent 6 }}
    containers:
      - name: rotate
        image: {{ include "edge.image" . }}
        args: [issuer, rotate, --secret, corpus-session-keys]
        env:
          - {name: ISSUER_SESSION_SECONDS, value: {{ .Values.session.seconds | int | quote }}}
          - {name: ISSUER_PUBLISH_SECONDS, value: {{ .Values.session.publishSeconds | int | quote }}}
          - {name: ISSUER_ROTATE_SECONDS, value: {{ .Values.session.rotateSeconds | int | quote }}}
        resources:
          requests: {cpu: 50m, memory: 96Mi}
          limits: {memory: 256Mi}
        securityContext:
          {{- include "edge.containerSecurity" . | nindent 10 }}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
    volumes:
      - name: tmp
        emptyDir:
          sizeLimit: 16Mi
{{- end -}}
