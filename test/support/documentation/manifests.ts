import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';

/** Reads a file of the repository. */
export const readFile = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8');

export const manifestPage = readFile('ingress/documentation/kubernetes.md');
export const manifestBlocks = [...manifestPage.matchAll(/^```yaml manifest\n(.*?)^```$/gms)].map(
  ([, text = '']) => text,
);
/** The manifests of the page, and those that the chart makes of its values. */
export const blocks = [...manifestBlocks, readFile('test/chart/rendered.yaml')];

export const texts = z.record(z.string(), z.string());
export const named = z.object({ name: z.string() });
const optionallyNamed = named.extend({ optional: z.boolean().optional() });
const objectSchema = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
  data: texts.optional(),
  stringData: texts.optional(),
});
const probe = z.looseObject({ httpGet: z.object({ path: z.string(), port: z.string() }) });
const containerSchema = z.looseObject({
  name: z.enum(['ingress', 'worker']),
  image: z.string(),
  command: z.tuple([z.literal('node'), z.string()]),
  envFrom: z.array(z.object({ configMapRef: named.optional(), secretRef: optionallyNamed.optional() })),
  env: z
    .array(
      z.object({
        name: z.string(),
        value: z.string().optional(),
        valueFrom: z.object({ secretKeyRef: optionallyNamed.extend({ key: z.string() }) }).optional(),
      }),
    )
    .default([]),
  ports: z.array(z.object({ name: z.string(), containerPort: z.int() })),
  livenessProbe: probe,
  readinessProbe: probe,
  lifecycle: z.unknown().optional(),
  resources: z.object({
    requests: z.object({ cpu: z.string(), memory: z.string() }),
    limits: z.strictObject({ memory: z.string() }), // a limit of the CPU would delay streams
  }),
  securityContext: z.object({
    allowPrivilegeEscalation: z.literal(false),
    readOnlyRootFilesystem: z.literal(true),
    capabilities: z.object({ drop: z.tuple([z.literal('ALL')]) }),
  }),
  volumeMounts: z.array(z.looseObject({ name: z.string(), mountPath: z.string() })),
});
const deploymentSchema = objectSchema.extend({
  spec: z.looseObject({
    selector: z.object({ matchLabels: texts }),
    template: z.object({
      metadata: z.object({ labels: texts }),
      spec: z.looseObject({
        automountServiceAccountToken: z.literal(false),
        terminationGracePeriodSeconds: z.int(),
        securityContext: z.looseObject({ runAsNonRoot: z.literal(true), runAsUser: z.int().positive() }),
        topologySpreadConstraints: z.array(z.looseObject({ labelSelector: z.object({ matchLabels: texts }) })).min(2),
        containers: z.tuple([containerSchema]),
        volumes: z.array(
          z.looseObject({ name: z.string(), configMap: named.optional(), emptyDir: z.object({}).optional() }),
        ),
      }),
    }),
  }),
});

type KubernetesObject = z.infer<typeof objectSchema>;
export type Deployment = z.infer<typeof deploymentSchema>;
type Container = z.infer<typeof containerSchema>;

export const objects = blocks.flatMap((text) =>
  parseAllDocuments(text).map((document) => objectSchema.parse(document.toJS())),
);
export const ofKind = (kind: string) => objects.filter((object) => object.kind === kind);
export const deployments = ofKind('Deployment').map((object) => deploymentSchema.parse(object));
export const podOf = ({ spec }: Deployment) => spec.template.spec;
export const containerOf = (deployment: Deployment) => podOf(deployment).containers[0];

export function findObject(kind: string, name: string): KubernetesObject {
  const found = ofKind(kind).find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
  return found;
}

/** The environment of a container. Throws if it names an object or a key that does not exist. */
export function environmentOf({ envFrom, env }: Container): Record<string, string> {
  const sources = envFrom.map(({ configMapRef, secretRef }) =>
    configMapRef === undefined
      ? findObject('Secret', secretRef?.name ?? '').stringData
      : findObject('ConfigMap', configMapRef.name).data,
  );
  const single = env.map(({ name, value, valueFrom }) => {
    const { name: secret = '', key = '' } = valueFrom?.secretKeyRef ?? {};
    return [
      name,
      value ?? findObject('Secret', secret).stringData?.[key] ?? missing(`${secret} has no ${key}`),
    ] as const;
  });
  return Object.assign({}, ...sources, Object.fromEntries(single));
}

function missing(what: string): never {
  throw new Error(what);
}

export function planFileOf(deployment: Deployment): string {
  const [volume] = podOf(deployment).volumes.filter(({ configMap }) => configMap !== undefined);
  return findObject('ConfigMap', volume?.configMap?.name ?? '').data?.['plans.yaml'] ?? missing('no plan file');
}

export const labelsOf = ({ spec }: Deployment) => spec.template.metadata.labels;
export const selects = (selector: Record<string, string>, labels: Record<string, string>) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);
