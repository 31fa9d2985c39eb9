import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv, type SchemaObject } from 'ajv';
import { parse } from 'yaml';
import { z } from 'zod';
import { providePython } from '../stack/python-environment.ts';
import { readText } from './chart-page.ts';

const run = promisify(execFile);
/** For a slow line. */
const downloadMs = 600_000;
const runMs = 120_000;

export type Resource = { apiVersion: string; kind: string; metadata: { name: string } };

/** The CRDs of resources that are not Kubernetes' own: of the lowest versions that the page names, if it names one. */
const customResources: Readonly<Record<string, { module?: string; file: string }>> = {
  HTTPRoute: inGatewayApi('httproutes'),
  Gateway: inGatewayApi('gateways'),
  ScaledObject: { module: 'github.com/kedacore/keda/v2@v2.17.2', file: 'config/crd/bases/keda.sh_scaledobjects.yaml' },
  PodMonitor: {
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    file: 'example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml',
  },
  MongoDBCommunity: {
    module: 'github.com/mongodb/mongodb-kubernetes-operator@v0.13.0',
    file: 'config/crd/bases/mongodbcommunity.mongodb.com_mongodbcommunity.yaml',
  },
  RedisCluster: { file: 'test/chart/redis-cluster-crd.yaml' },
};

function inGatewayApi(name: string) {
  const file = `config/crd/standard/gateway.networking.k8s.io_${name}.yaml`;
  return { module: 'sigs.k8s.io/gateway-api@v1.2.1', file };
}

export const isCustom = ({ kind }: Resource) => kind in customResources;

/** What is wrong with these resources by the CRDs of their kinds. Properties that a CRD does not name are wrong, too. */
export async function customFaults(resources: readonly Resource[]): Promise<string[]> {
  const faults: string[] = [];
  for (const resource of resources) {
    const validate = new Ajv({ strict: false, validateFormats: false, allErrors: true }).compile(
      await schemaOf(resource),
    );
    const isRight: boolean = validate(resource);
    if (isRight) continue;
    const found = (validate.errors ?? []).map(({ instancePath, message, params }) =>
      [instancePath, message, JSON.stringify(params)].join(' '),
    );
    faults.push(...found.map((fault) => `${resource.kind} ${resource.metadata.name}: ${fault}`));
  }
  return faults;
}

const crdSchema = z.object({
  spec: z.object({
    versions: z.array(
      z.object({ name: z.string(), schema: z.object({ openAPIV3Schema: z.record(z.string(), z.unknown()) }) }),
    ),
  }),
});

async function schemaOf({ apiVersion, kind }: Resource): Promise<SchemaObject> {
  const { module, file } = customResources[kind] ?? { file: '' };
  const text = module === undefined ? readText(file) : await readFile(join(await folderOf(module), file), 'utf8');
  const { versions } = crdSchema.parse(parse(text)).spec;
  const version = versions.find(({ name }) => apiVersion.endsWith(`/${name}`));
  if (version === undefined) throw new Error(`${file} has no ${apiVersion}`);
  const { properties } = z
    .object({ properties: z.record(z.string(), z.unknown()) })
    .parse(version.schema.openAPIV3Schema);
  return strict({
    type: 'object',
    properties: { ...properties, apiVersion: {}, kind: {}, metadata: { type: 'object' } },
  });
}

/** The schema with only named properties, as the strict validation of Kubernetes, and without what JSON Schema does not know. */
function strict(schema: Record<string, unknown>): Record<string, unknown> {
  const changed = Object.entries(schema).map(([key, value]) => [
    key,
    Array.isArray(value) ? value : strictValue(value),
  ]);
  const result: Record<string, unknown> = Object.fromEntries(changed);
  if (schema['x-kubernetes-int-or-string'] === true) for (const key of ['type', 'anyOf', 'pattern']) delete result[key];
  const isOpen = schema['x-kubernetes-preserve-unknown-fields'] === true || 'additionalProperties' in schema;
  if (schema.type === 'object' && 'properties' in schema && !isOpen) result.additionalProperties = false;
  return result;
}

function strictValue(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? strict(value as Record<string, unknown>) : value;
}

async function folderOf(module: string): Promise<string> {
  const { stdout } = await run('go', ['mod', 'download', '-json', module], { cwd: tmpdir(), timeout: downloadMs });
  return z.object({ Dir: z.string() }).parse(JSON.parse(stdout)).Dir;
}

/**
 * Validates texts of Kubernetes' own resources strictly, against its version. Returns the names of those that are right, and what is wrong.
 */
export async function validateBuiltIn(
  texts: readonly string[],
  version: string,
): Promise<{ right: string[]; said: string }> {
  const packages = { 'kubernetes-validate': '1.37.0' };
  const python = await providePython({ name: 'kubernetes-validate', packages, modules: ['kubernetes_validate'] });
  const folder = await mkdtemp(join(tmpdir(), 'kubernetes-'));
  try {
    const file = join(folder, 'resources.yaml');
    await writeFile(file, texts.join('---\n'));
    const args = ['-m', 'kubernetes_validate', '--strict', '-k', version, file];
    const said = await run(python, args, { timeout: runMs }).then(
      ({ stdout }) => stdout,
      ({ stdout, stderr, message }) => stdout || stderr || message, // it also ends with an error if a resource is wrong
    );
    return { right: [...said.matchAll(/ passed for resource (\S+)/g)].map(([, name = '']) => name), said };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
