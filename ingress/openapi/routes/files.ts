import { filesQuery } from '../../routes/files.ts';
import { type RouteDescriptions, refusedBody, refusedHead } from '../description/route-description.ts';

const file = {
  id: 'file-01KBN4V4W0R2E9Z6Y5QH3T8MXA',
  object: 'file',
  bytes: 1_024,
  created_at: 1_767_225_600,
  expires_at: 1_769_817_600,
  filename: 'requests.jsonl',
  purpose: 'batch',
  status: 'processed',
  key_id: 'key_01KBN4V4W0R2E9Z6Y5QH3T8MXA',
} as const;

export const fileRoutes = {
  'POST /v1/files': {
    id: 'uploadFile',
    tag: 'Files',
    summary: 'Upload the input file of a batch',
    description: `A form with \`purpose\`, which is \`batch\`, and one \`file\` of JSON lines:
\`{"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}\`. \`url\` is the endpoint of the batch, the same in all lines.`,
    credential: 'account',
    body: { schema: 'FileUpload', form: true },
    answer: { description: 'The file.', schema: 'File', example: file },
    refusals: [...refusedHead.key, ...refusedBody, 'CONFLICT', 'rate_limit_exceeded'],
    limits: ['concurrency_limit'],
  },
  'GET /v1/files': {
    id: 'listFiles',
    tag: 'Files',
    summary: 'List the files of the account',
    credential: 'account',
    query: filesQuery,
    answer: {
      description: 'A page of files.',
      schema: 'FileList',
      example: { object: 'list', data: [file], first_id: file.id, last_id: file.id, has_more: false },
    },
    refusals: refusedHead.key,
  },
  'GET /v1/files/:file': {
    id: 'retrieveFile',
    tag: 'Files',
    summary: 'Retrieve a file',
    credential: 'account',
    answer: { description: 'The file.', schema: 'File', example: file },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
  'GET /v1/files/:file/content': {
    id: 'retrieveFileContent',
    tag: 'Files',
    summary: 'Download a file',
    description: 'If a download cannot continue, the connection closes before `Content-Length` bytes are sent.',
    credential: 'account',
    answer: { description: 'Its bytes.', schema: 'bytes' },
    refusals: [...refusedHead.key, 'NOT_FOUND'],
  },
  'DELETE /v1/files/:file': {
    id: 'deleteFile',
    tag: 'Files',
    summary: 'Delete a file',
    description: '`CONFLICT` while it is the input of a batch that has not ended.',
    credential: 'account',
    answer: {
      description: 'The file is deleted.',
      schema: 'DeletedFile',
      example: { id: file.id, object: 'file', deleted: true },
    },
    refusals: [...refusedHead.key, 'NOT_FOUND', 'CONFLICT'],
  },
} as const satisfies RouteDescriptions;
