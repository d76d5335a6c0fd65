"""Sessions opened by remote programs: over HTTP, over JSON-RPC, or as agents of other agents."""

from sagent.plugin import Plugin

plugin = Plugin("hosting", "what sessions for other programs have in common; for serve, acp, a2a, mcp, mesh and slack")
