// Everything that the official TypeScript client can ask of a server over stdio, as one JSON object.
import { pathToFileURL } from "node:url";

const sdk = (path) => import(pathToFileURL(`${process.env.MCP_TYPESCRIPT_SDK}/dist/esm/client/${path}.js`));
const { Client } = await sdk("index");
const { StdioClientTransport } = await sdk("stdio");

const client = new Client({ name: "tests", version: "1" });
const [command, ...args] = process.argv.slice(2);
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const slow = { timeout: 300_000 };
const found = await client.callTool({ name: "search_kubeflow_docs", arguments: { question: "caching", limit: "2" } }, undefined, slow);
const { tools } = await client.listTools();
const { resources } = await client.listResources();
const { resourceTemplates } = await client.listResourceTemplates();
const unit = await client.readResource({ uri: "corpus://unit/site%3Acaching.md%23use" }, slow);
const { prompts } = await client.listPrompts();
const prompt = await client.getPrompt({ name: prompts[0].name });
await client.close();
console.log(JSON.stringify({ found, tools, resources, resourceTemplates, unit, prompt }));
