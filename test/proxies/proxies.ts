/** A proxy that is run from its file, unchanged. */
export type ProxySetup = {
  /** From the root of the project. */
  file: string;
  /** The command, in the foreground. */
  command: (file: string, folder: string) => string[];
  /** Where clients reach it. */
  url: string;
  /** As its page says: an ingress is restarted once the one before gets requests again. */
  waitsForRequests?: true;
};

const shown = 'ingress/deployment/proxies/';
const haproxy = (file: string) => ['haproxy', '-db', '-f', file];

export const proxies = {
  haproxy: { file: `${shown}haproxy.cfg`, command: haproxy, url: 'http://api.example.com:8080' },
  'haproxy-defaults': {
    file: 'test/proxies/haproxy-defaults.cfg',
    command: haproxy,
    url: 'http://api.example.com:8080',
  },
  nginx: {
    file: `${shown}nginx.conf`,
    command: (file, folder) => [
      'nginx',
      '-p',
      folder,
      '-c',
      file,
      '-e',
      'stderr',
      '-g',
      `daemon off; pid ${folder}/nginx.pid;`,
    ],
    url: 'https://api.example.com',
  },
  caddy: {
    file: `${shown}Caddyfile`,
    command: (file) => [process.env.CADDY ?? 'caddy', 'run', '--config', file, '--adapter', 'caddyfile'],
    url: 'https://api.example.com',
  },
  envoy: {
    file: `${shown}envoy.yaml`,
    command: (file) => [process.env.ENVOY ?? 'envoy', '--config-path', file, '--log-level', 'warning'],
    url: 'https://api.example.com',
  },
  traefik: {
    file: `${shown}traefik.yaml`,
    // With the entry point that the head of the file names.
    command: (file) => [
      ...[
        process.env.TRAEFIK ?? 'traefik',
        `--providers.file.filename=${file}`,
        '--entryPoints.websecure.address=:443',
      ],
      '--entryPoints.websecure.transport.respondingTimeouts.readTimeout=0s',
    ],
    url: 'https://api.example.com',
    waitsForRequests: true,
  },
} satisfies Record<string, ProxySetup>;

export type ProxyName = keyof typeof proxies;
